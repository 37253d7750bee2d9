-- Combine deltas with stored values: sum, min or max of 64-bit integers or doubles, in records of fixed width
-- (records/forms.py). KEYS: meta, buckets. ARGV: token, epoch, txid, number of fields per bucket (4 bytes each), fields
-- (each with its length before it, 4 bytes), deltas (8 bytes each), which deltas are null (a byte each; '' for none),
-- operation, '<i8' or '<d', '1' if the records are wanted, '1' if the records are bare (no txid, no prev: applied each
-- time); where values have expired also the cutoffs as of this batch and as of the one before it.
-- A key that has this txid already stays as it is. Answers OK, number of moved keys, records; any other answer means
-- that nothing was written.
local refused = closed()
if refused then return refused end
local pack, unpk, rep, sub, byte = struct.pack, struct.unpack, string.rep, string.sub, string.byte
local txid, op, number, wanted, bare = tonumber(ARGV[3]), ARGV[8], ARGV[9], ARGV[10] == '1', ARGV[11] == '1'
local whole, sum, max = number == '<i8', op == 'sum', op == 'max'
local nulls = ARGV[7] ~= '' and ARGV[7]
local cutoff, before = tonumber(ARGV[12] or '-2'), tonumber(ARGV[13] or '-2')
local width = bare and 9 or 25
local record = bare and '<B' .. sub(number, 2) or '<BI8' .. sub(number, 2) .. sub(number, 2)
local EXACT = 9007199254740992 -- 2^53: below it a double is the integer

-- Combine two 64-bit integers, given as bytes, in halves that doubles hold exactly; nil where the sum exceeds 64 bits.
local function wide(a, b)
  local low, high = unpk('<I4i4', a)
  local more, above = unpk('<I4i4', b)
  if not sum then
    local greater = above > high or (above == high and more > low) -- b > a
    return (greater == max) and b or a
  end
  low, high = low + more, high + above
  if low >= 4294967296 then low, high = low - 4294967296, high + 1 end
  if high > 2147483647 or high < -2147483648 then return nil end
  return pack('<I4i4', low, high)
end

-- Return the record of prev (`old`) and value (`new`), given as bytes; nil stands for null.
local function made(old, new)
  local zero = '\0\0\0\0\0\0\0\0'
  if bare then return pack('B', new and 0 or 2) .. (new or zero) end
  return pack('<BI8', (old and 0 or 1) + (new and 0 or 2), txid) .. (old or zero) .. (new or zero)
end

local counts = {unpk(rep('<I4', #KEYS - 1), ARGV[4])}
local deltas = {unpk(rep(number, #ARGV[6] / 8), ARGV[6])}
local fields = {unpk(rep('<I4c0', #deltas - 1), ARGV[5])} -- the last result of unpack is where it stopped
local puts, upto, fresh, answers, n, k = {}, {}, {}, {}, 0, 0
for b = 2, #KEYS do
  local count = counts[b - 1]
  local found = redis.call('HMGET', KEYS[b], unpack(fields, n + 1, n + count))
  fresh[b] = 0
  for i = 1, count do
    local j = n + i
    local stored, delta, put = found[i], deltas[j], nil
    local absent = nulls and byte(nulls, j) == 1
    if not stored then
      fresh[b] = fresh[b] + 1
      put = made(nil, not absent and sub(ARGV[6], 8 * j - 7, 8 * j) or nil)
    else
      if #stored ~= width then return answer('CORRUPT') end
      local flags, t, value, _
      if bare then t, flags, value = -1, unpk(record, stored) else flags, t, _, value = unpk(record, stored) end
      if flags > 3 then return answer('CORRUPT') end
      if t > txid then return answer('AHEAD') end
      if t < txid then
        if t <= cutoff then -- the value has expired, but reads as of the batch before may still see it
          put = made(t > before and flags <= 1 and sub(stored, width - 7) or nil,
            not absent and sub(ARGV[6], 8 * j - 7, 8 * j) or nil)
        elseif absent or flags > 1 then -- one side is null: the result is the other side
          local old = flags <= 1 and sub(stored, width - 7) or nil
          put = made(old, absent and old or not absent and sub(ARGV[6], 8 * j - 7, 8 * j) or nil)
        else
          local result
          if sum then
            result = value + delta
          elseif max then
            result = (delta > value or (delta ~= delta and value == value)) and delta or value
          else
            result = (value > delta or (value ~= value and delta == delta)) and delta or value
          end
          if not whole or (value < EXACT and value > -EXACT and delta < EXACT and delta > -EXACT
              and result < EXACT and result > -EXACT) then
            put = bare and pack(record, 0, result) or pack(record, 0, txid, value, result)
          else
            local old = sub(stored, width - 7)
            local new = wide(old, sub(ARGV[6], 8 * j - 7, 8 * j))
            if not new then return {'OVERFLOW', j} end
            put = made(old, new)
          end
        end
      end
    end
    if put then
      puts[k + 1], puts[k + 2] = fields[j], put
      k = k + 2
    end
    if wanted then answers[j] = put or stored end
  end
  n, upto[b] = n + count, k
end
probe()
local from, created = 0, 0
for b = 2, #KEYS do
  if upto[b] > from then redis.call('HSET', KEYS[b], unpack(puts, from + 1, upto[b])) end
  if fresh[b] > 0 then add_legend(KEYS[b], fresh[b]) end
  from, created = upto[b], created + fresh[b]
end
if k > 0 then redis.call('HINCRBY', KEYS[1], 'moved', k / 2) end
if created > 0 then redis.call('HINCRBY', KEYS[1], 'keys', created) end
return {'OK', k / 2, wanted and table.concat(answers) or ''}
