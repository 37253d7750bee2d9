-- Every write of a log. It is refused under another lease, or where a condition fails; else it is done as a whole.
-- ARGV: token, epoch, the write's number under this lease; the number of conditions, then (key, field, value) of each;
-- then the changes, each as (verb, key, number of words, words): 'set' fields and values, 'drop' fields, 'delete' the
-- key. A key is given by its index in KEYS; the value '' means that the field is absent. A write that is sent again
-- changes nothing. Nor does one that arrives after a newer one: such a copy was still under way when its driver had sent
-- it again and gone on.
local meta = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'last')
if not meta[2] then return {'GONE', ''} end
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] then
  return {tonumber(meta[2]) < tonumber(ARGV[2]) and 'REWOUND' or 'FENCED', meta[2]}
end
local number, last = tonumber(ARGV[3]), tonumber(meta[3]) or 0
if number == last then return {'OK', 'again'} end
if number < last then return {'LATE', meta[3]} end
local at = 5
for _ = 1, tonumber(ARGV[4]) do
  local value = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1]) or ''
  if value ~= ARGV[at + 2] then return {'REFUSED', ARGV[at + 1]} end
  at = at + 3
end
while at <= #ARGV do
  local verb, key, upto = ARGV[at], KEYS[tonumber(ARGV[at + 1])], at + 2 + tonumber(ARGV[at + 2])
  if verb == 'set' then
    redis.call('HSET', key, unpack(ARGV, at + 3, upto))
  elseif verb == 'drop' then
    redis.call('HDEL', key, unpack(ARGV, at + 3, upto))
  else
    redis.call('UNLINK', key)
  end
  at = upto + 1
end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'last', ARGV[3]) end  -- else this write dropped the log
return {'OK', ''}
