-- publish sends a message to those who listen on a sharded channel, and to those who listen on the
-- classic one of the same name. It returns the answer for the former. This text comes before that of
-- a script, whose calls of PUBLISH become calls of publish.
local function publish(channel, message)
  local told = redis.pcall('SPUBLISH', channel, message)
  redis.pcall('PUBLISH', channel, message)
  return told
end
