-- Stands before every script. A script that the server stops in the middle keeps what it has written, and an
-- administrator may take a right away at any time. So a script asks for all rights before its first write (Redis 7 and
-- Valkey can tell; for others see `probe`).
local function ask(names)
  if not redis.acl_check_cmd then return end
  for _, name in ipairs(names) do
    if not redis.acl_check_cmd(name, KEYS[1]) then
      error(redis.error_reply("NOPERM this user has no permissions to run the '" .. string.lower(name) ..
        "' command on the key " .. KEYS[1] .. '; the script wrote nothing'))
    end
  end
end
