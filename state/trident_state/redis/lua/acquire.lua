-- Set the fence and erase the open record. ARGV: token, epoch, txid (unused).
if not epoch then return answer('GONE') end
if tonumber(epoch) > tonumber(ARGV[2]) or (epoch == ARGV[2] and token ~= ARGV[1]) then return answer('FENCED') end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'epoch', ARGV[2])
redis.call('HDEL', KEYS[1], 'open')
return answer('OK')
