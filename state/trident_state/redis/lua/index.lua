-- Build the index of due times of a group, in several calls. KEYS: meta, index. ARGV: token, epoch, txid (unused),
-- 'first', 'more' or 'last', fields (each with its length before it, 4 bytes), due times (8 bytes each, a double; NaN for
-- none).
-- The first call begins with an empty index, which is not complete; the last one notes that it is, as of the marker.
local refused = fenced()
if refused then return refused end
if ARGV[4] == 'first' then
  redis.call('HDEL', KEYS[1], 'due')
  redis.call('HSET', KEYS[1], 'dues', 0)
  redis.call('DEL', KEYS[2])
end
local count = #ARGV[6] / 8
if count > 0 then
  local fields = {struct.unpack(string.rep('<I4c0', count), ARGV[5])}
  fields[count + 1] = nil -- where unpack stopped
  note_dues(KEYS[2], fields, ARGV[6])
end
if ARGV[4] == 'last' then redis.call('HSET', KEYS[1], 'due', marker) end
return answer('OK')
