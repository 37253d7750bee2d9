-- A server keeps a hash of few short fields (512 by default) as a list, in which each field that is read or written is
-- looked for from the front. One value longer than such a list takes (hash-max-listpack-value: 64) makes a hash table of
-- it for good, also when the server loads it again. So a bucket that grows gets a field that is no key, the empty one.
local SHORT = 32 -- fields up to which the list is as fast, and takes less room
local TEXT = 'A bucket of a Trident state: every other field is one of its keys, with what is stored for it.'

-- To be called after so many new keys were put into a bucket: a list that is turned at once lies close together.
local function add_legend(bucket, fresh)
  local there = redis.call('HLEN', bucket)
  if there > SHORT and there - fresh <= SHORT then redis.call('HSET', bucket, '', TEXT) end
end

-- To be called after keys were deleted from a bucket: the last one takes it along.
local function drop_legend(bucket)
  if redis.call('HLEN', bucket) == 1 then redis.call('HDEL', bucket, '') end
end
