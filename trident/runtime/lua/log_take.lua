-- A new lease, one epoch later. ARGV: token, uuid. Taken again under the same token it is the same one.
local meta = redis.call('HMGET', KEYS[1], 'uuid', 'token', 'epoch')
if meta[1] ~= ARGV[2] then return {'GONE', meta[1] or ''} end
if meta[2] == ARGV[1] then return {'OK', meta[3]} end
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'last', 0)
return {'OK', tostring(epoch)}
