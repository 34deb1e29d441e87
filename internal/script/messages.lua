-- messages.lua is in the scripts that publish on the channel of a name, or say who listens on the channel.

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
