-- Issue a new lease, one epoch later. ARGV: token, uuid. The log keeps every token, and the first epoch whose token it
-- has (version 0.1.0 kept none). The same token again returns the same lease: this was a command that was sent twice.
local meta = redis.call('HMGET', KEYS[1], 'uuid', 'token', 'epoch')
if meta[1] ~= ARGV[2] then return {'GONE', meta[1] or ''} end
if meta[2] == ARGV[1] then return {'OK', meta[3]} end
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'last', 0, 'lease:' .. epoch, ARGV[1])
redis.call('HSETNX', KEYS[1], 'since', epoch)
return {'OK', tostring(epoch)}
