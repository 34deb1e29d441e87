-- line_release.lua takes a manager out of the line of a plain lock, and gives up what the manager has
-- of the lock. It begins with line.lua.
--
-- KEYS[1]   lock
-- ARGV[1]   the manager
-- ARGV[2]   the number of the script
-- ARGV[3..] every owner of this manager that the record may carry, maybe none
-- ARGV[n]   the last: channel
--
-- Returns what release.lua returns.
--
-- Safe to repeat. A copy that runs late does nothing if a newer script has joined the line.
local key = KEYS[1]
local line, wants = keysOf(key)
local gone = 0
for i = 3, #ARGV - 1 do
  local one = redis.pcall('HDEL', key, ARGV[i]) -- an error: the key is no lock
  gone = gone + (type(one) == 'number' and one or 0)
end
pcall(leave, line, wants, ARGV[1], tonumber(ARGV[2]))
return freed(key, ARGV[#ARGV], ARGV[1], gone > 0)
