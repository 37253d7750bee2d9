-- Create an empty group at a marker. KEYS: meta, and in a state that keeps due times their index. ARGV: token, epoch,
-- birth, then the fields of the identity, each followed by its value; that of the fourth field (ARGV[11]) is the uuid of
-- the driver's log.
-- A group that a crash left without a key and with its marker at its birth is created again.
if epoch then
  if epoch == ARGV[2] and token == ARGV[1] then return answer('OK') end
  local refused = newer_or_other(ARGV[11])
  if refused then return refused end
  local stored = redis.call('HMGET', KEYS[1], 'keys', 'birth')
  if stored[1] ~= '0' or stored[2] ~= marker or open then return answer('EXISTS') end
end
redis.call('DEL', unpack(KEYS))
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'epoch', ARGV[2], 'birth', ARGV[3], 'marker', ARGV[3],
  'keys', 0, 'moving', ARGV[3], 'moved', 0, unpack(ARGV, 4))
return answer('OK')
