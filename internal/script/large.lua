-- large.lua is in the scripts that look at what anybody may have written.

-- large reports whether a script must not read a key: what it would read of the key has more than 16 MiB, and would
-- keep the server busy. part is the part of the key that the script reads. large returns false if the user may not ask.
local function large(key, part)
  local bytes = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 1000)
  return type(bytes) == 'number' and bytes * math.min(part, 1) > 16777216
end

