-- Before every other script. Meta of a group, and the answers about it.
-- ARGV of every script begins with token, epoch, txid (for create: birth).
local meta = redis.call('HMGET', KEYS[1], 'token', 'epoch', 'open', 'marker')
local token, epoch, open, marker = meta[1], meta[2], meta[3], meta[4]

local function answer(status, detail)
  return {status, token or '', epoch or '', open or '', marker or '', detail or ''}
end

-- Why the caller may not write: nil if the fence is its own.
local function fenced()
  if not epoch or not token or not marker then return answer('GONE') end
  if token == ARGV[1] and epoch == ARGV[2] then return nil end
  if tonumber(epoch) < tonumber(ARGV[2]) then return answer('REWOUND') end
  return answer('FENCED')
end

-- Why the caller may not take this group: nil if nobody holds it, or an earlier driver of the same log ('': any log).
-- Epochs of two logs say nothing about each other.
local function newer_or_other(log)
  if not epoch then return nil end
  local held = redis.call('HGET', KEYS[1], 'log')
  if log ~= '' and held ~= log then return answer('OTHER', held or '') end
  if tonumber(epoch) > tonumber(ARGV[2]) or (epoch == ARGV[2] and token ~= ARGV[1]) then return answer('FENCED') end
  return nil
end

-- Why the caller may not put: nil if the fence is its own and its txid is open.
local function closed()
  local refused = fenced()
  if refused then return refused end
  if open ~= ARGV[3] then return answer('CLOSED') end
  return nil
end
