-- plain.lua is in the scripts of plain locks that look at the line: see line.lua.

-- lineOf returns the key of the line of a lock.
local function lineOf(key)
  return string.find(key, '{', 1, true) and key .. ':line' or '{' .. key .. '}:line'
end

-- fair reports whether a record is that of a fair lock of this library. It returns false if the user
-- may not read the record. A record with many fields, which are not ours, is not read.
local function fair(key)
  local holder = redis.pcall('HLEN', key) == 1 and redis.pcall('HGETALL', key)[1]
  return holder and string.sub(holder, -2) == ':f'
end
