-- plain.lua is in the scripts of all kinds of locks that have a line: see line.lua. Fair locks have none.

local whole = 1000000 -- permits of a lock that is free

-- fair reports whether a record is that of a fair lock of this library. It returns false if the user
-- may not read the record. A record with many fields, which are not ours, is not read.
local function fair(key)
  local holder = redis.pcall('HLEN', key) == 1 and redis.pcall('HGETALL', key)[1]
  return holder and string.sub(holder, -2) == ':f'
end

-- beside returns the name of a key of a lock's line. The lock "a", the lock "{a}" and permits "a" have
-- different lines.
local function beside(key, what)
  if string.find(key, '{', 1, true) then
    return key .. ':tag_' .. what
  end
  return '{' .. key .. '}:lock_' .. what
end
