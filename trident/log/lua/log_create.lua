-- Create a log where there is none. ARGV: format, topology, uuid. Returns format, topology and uuid of the log there.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'topology', ARGV[2], 'uuid', ARGV[3], 'epoch', 0, 'token', '', 'last', '')
end
return redis.call('HMGET', KEYS[1], 'format', 'topology', 'uuid')
