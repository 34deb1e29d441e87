-- plain.lua is in the scripts of all kinds of locks that have a line: see line.lua. Fair locks have none.

local whole = 1000000 -- permits of a lock that is free

-- beside returns the name of a key of a lock's line. The lock "a", the lock "{a}" and permits "a" have
-- different lines.
local function beside(key, what)
  if string.find(key, '{', 1, true) then
    return key .. ':tag_' .. what
  end
  return '{' .. key .. '}:lock_' .. what
end

-- fair reports whether a record is that of a fair lock of this library. It returns false if the user
-- may not read the record. A record with many fields, which are not ours, is not read.
local function fair(key)
  local holder = redis.pcall('HLEN', key) == 1 and redis.pcall('HGETALL', key)[1]
  return holder and string.sub(holder, -2) == ':f'
end

-- outsiders returns how many clients subscribe to the channel of a lock that stand in no line, and how
-- many to the channel of a manager, if there is one. Managers of this library that may stand in the line
-- subscribe to the channel with ":line" added, too. outsiders returns nil if the user may not ask.
local function outsiders(channel, manager)
  local n = redis.pcall('PUBSUB', 'NUMSUB', channel, channel .. ':line', channel .. ':' .. (manager or ''))
  if not n.err then
    return math.max(n[2] - n[4], 0), n[6]
  end
end

-- waiting returns how many wait: those in the line whose hash is wants, and the clients that stand in no line. It
-- returns -1 if the user may not ask.
local function waiting(channel, wants)
  local outside, line = outsiders(channel), redis.pcall('HLEN', wants)
  return outside and outside + (type(line) == 'number' and line or 0) or -1
end

-- publish tells the clients that stand in no line, and returns how many there are. It returns the error,
-- as a text, if the message can't be published.
local function publish(channel, message)
  local told = redis.pcall('PUBLISH', channel, message)
  if type(told) == 'table' then
    return told.err
  end
  return told > 0 and outsiders(channel) or told
end

-- refused returns the answer of a refused acquire. left is for how many milliseconds others have the lock.
-- joined is set if the manager stands in the line as it wants.
local function refused(want, left, joined)
  if joined or want == '' then
    return left
  end
  return {left, 0}
end
