-- Set the fence of a group and erase its open record.
-- ARGV: token, epoch, txid (unused), the uuid of the driver's log ('': any).
if not epoch then return answer('GONE') end
local refused = newer_or_other(ARGV[4])
if refused then return refused end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'epoch', ARGV[2])
redis.call('HDEL', KEYS[1], 'open')
return answer('OK')
