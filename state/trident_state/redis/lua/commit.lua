-- Move the marker of a group to the txid.
-- ARGV: token, epoch, txid, the number of distinct keys of the batch in this group; in a state whose values expire also
-- the expiry as of this batch (expiry.py).
-- An index of due times that is complete as of the batch before is complete as of this one.
-- The number of keys that were moved must be that of the batch: else a chunk was refused or never arrived.
local refused = fenced()
if refused then return refused end
if tonumber(marker) >= tonumber(ARGV[3]) then return answer('DONE') end
if open ~= ARGV[3] then return answer('CLOSED') end
local stored = redis.call('HMGET', KEYS[1], 'moved', 'due')
local moved = stored[1]
if moved ~= ARGV[4] then return answer('COUNT', moved) end
redis.call('HSET', KEYS[1], 'marker', ARGV[3], 'moved', 0)
if stored[2] == marker then redis.call('HSET', KEYS[1], 'due', ARGV[3]) end
if ARGV[5] then redis.call('HSET', KEYS[1], 'expiry', ARGV[5]) end
redis.call('HDEL', KEYS[1], 'open')
return answer('OK')
