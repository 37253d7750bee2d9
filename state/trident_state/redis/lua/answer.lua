-- Stands before every other script: reads the meta hash of a group, and answers about it.
-- KEYS[1] is the meta hash. ARGV of every script begins with token, epoch, txid (for create: birth).
-- A script answers {'OK', ...}, or a status with the meta that it read, which script_errors.py turns into an error.
local meta = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'open', 'marker')
local token, epoch, open, marker = meta[1], meta[2], meta[3], meta[4]

local function answer(status, detail)
  return {status, token or '', epoch or '', open or '', marker or '', detail or ''}
end

-- Return why the caller may not write; nil if the fence is its own.
local function fenced()
  if not epoch or not token or not marker then return answer('GONE') end
  if token == ARGV[1] and epoch == ARGV[2] then return nil end
  if tonumber(epoch) < tonumber(ARGV[2]) then return answer('REWOUND') end
  return answer('FENCED')
end

-- Return why the caller may not take this group; nil if no driver holds it, or an earlier one of the same log ('': of
-- any log). Epochs of two logs cannot be compared.
local function newer_or_other(log)
  if not epoch then return nil end
  local held = redis.call('HGET', KEYS[1], 'log')
  if log ~= '' and held ~= log then return answer('OTHER', held or '') end
  if tonumber(epoch) > tonumber(ARGV[2]) or (epoch == ARGV[2] and token ~= ARGV[1]) then return answer('FENCED') end
  return nil
end

-- Return why the caller may not put; nil if the fence is its own and its txid is open.
local function closed()
  local refused = fenced()
  if refused then return refused end
  if open ~= ARGV[3] then return answer('CLOSED') end
  return nil
end
