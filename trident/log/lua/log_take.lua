-- Issue a new lease, one epoch later. ARGV: token, uuid; who takes it, as JSON behind the epoch ('' if that is not said);
-- and perhaps the epoch and the token of the lease that must still be in force. The log keeps every token. The same token
-- again returns the same lease: this was a command that was sent twice.
local meta = redis.call('HMGET', KEYS[1], 'uuid', 'token', 'epoch')
if meta[1] ~= ARGV[2] then return {'GONE', meta[1] or ''} end
if meta[2] == ARGV[1] then return {'OK', meta[3]} end
if ARGV[4] and (meta[3] ~= ARGV[4] or meta[2] ~= ARGV[5]) then return {'TAKEN', meta[3]} end
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
local holder = ARGV[3] == '' and '' or '{"epoch":' .. epoch .. ARGV[3]
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'last', 0, 'lease:' .. epoch, ARGV[1], 'holder', holder)
return {'OK', tostring(epoch)}
