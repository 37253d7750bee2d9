-- A server keeps a hash of few short fields (512 by default) as a list, and searches it from the front for each field
-- that is read or written. One value that is too long for such a list (hash-max-listpack-value: 64) turns it into a
-- hash table for good, also when the server loads it again. So a bucket that grows gets a field with a long value, the
-- legend: the empty field, which is not a key.
local SHORT = 32 -- number of fields up to which the list is as fast, and takes less memory
local TEXT = 'A bucket of a Trident state: every other field is one of its keys, with what is stored for it.'

-- To be called before the first write: on a server before Redis 7, find out by calls without an effect whether the
-- counts can be written, and a bucket's length be read.
local function probe()
  if not redis.acl_check_cmd then
    redis.call('HINCRBY', KEYS[1], 'moved', 0)
    redis.call('HLEN', KEYS[1])
  end
end

-- To be called after `fresh` new keys were put into a bucket. A list that is turned as soon as it is long enough makes
-- a table that lies close together in memory.
local function add_legend(bucket, fresh)
  local there = redis.call('HLEN', bucket)
  if there > SHORT and there - fresh <= SHORT then redis.call('HSET', bucket, '', TEXT) end
end

-- To be called after keys were deleted from a bucket: a legend that is the last field is deleted too.
local function drop_legend(bucket)
  if redis.call('HLEN', bucket) == 1 then redis.call('HDEL', bucket, '') end
end
