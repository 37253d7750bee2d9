-- Note in the index of a group when each field is due: a sorted set, whose scores are due times.
-- `dues` has 8 bytes for each field, a double; NaN takes the field out of the index. A put calls this also for a key
-- that has the txid already: its record is that of the put, and so is its due time.
-- The meta hash counts the entries of the index: an index that lost some is noticed.
local function note_dues(index, fields, dues)
  ask({'ZADD', 'ZREM'})
  local due, adds, gone = {struct.unpack(string.rep('<d', #fields), dues)}, {}, {}
  for i = 1, #fields do
    if due[i] == due[i] then
      adds[#adds + 1], adds[#adds + 2] = due[i], fields[i]
    else
      gone[#gone + 1] = fields[i]
    end
  end
  local more = 0
  if #adds > 0 then more = redis.call('ZADD', index, unpack(adds)) end
  if #gone > 0 then more = more - redis.call('ZREM', index, unpack(gone)) end
  if more ~= 0 then redis.call('HINCRBY', KEYS[1], 'dues', more) end
end
