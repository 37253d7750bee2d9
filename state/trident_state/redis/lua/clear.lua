-- Delete fields whose value was removed by a batch before the marker: to a read they are like fields that do not exist.
-- KEYS: meta, buckets. ARGV: token, epoch, txid (unused), number of fields per bucket (4 bytes each), fields (each with
-- its length before it, 4 bytes), 'fixed', 'packed' or 'json', '1' if the records are bare.
-- Answers OK, number of deleted fields.
local refused = fenced()
if refused then return refused end
local unpk, rep = struct.unpack, string.rep
local form, bare, done = ARGV[6], ARGV[7] == '1', tonumber(marker)

local function nothing(record)
  if form == 'json' then
    if bare then return record == 'null' end
    local t = tonumber(string.match(record, '^{"txid":(%d+),"value":null,') or '')
    return t and t < done
  end
  local null
  if form == 'fixed' then null = #record == (bare and 9 or 25) and string.byte(record) > 1
  elseif bare then null = record == 'N'
  else null = #record > 13 and string.sub(record, 14 + unpk('<I4', record, 10)) == 'N' end
  return null and (bare or unpk('<I8', record, 2) < done)
end

local counts = {unpk(rep('<I4', #KEYS - 1), ARGV[4])}
local at, went = 1, 0
for b = 2, #KEYS do
  local count = counts[b - 1]
  local fields = {unpk(rep('<I4c0', count), ARGV[5], at)}
  at = fields[count + 1]
  local found, gone = redis.call('HMGET', KEYS[b], unpack(fields, 1, count)), {}
  for i = 1, count do
    if found[i] and nothing(found[i]) then gone[#gone + 1] = fields[i] end
  end
  if #gone > 0 then
    redis.call('HDEL', KEYS[b], unpack(gone))
    drop_legend(KEYS[b])
  end
  went = went + #gone
end
if went > 0 then redis.call('HINCRBY', KEYS[1], 'keys', -went) end
return {'OK', went}
