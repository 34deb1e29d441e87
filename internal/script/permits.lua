-- permits.lua is in the scripts of permits.

local no_end = 922337203685477 -- the least score of a permit of Redisson's without a lease

-- counts reports whether a text is a number of free permits. The number may be negative.
local function counts(text)
  return string.find(text, '^%-?%d+$') and #text <= 16
end

-- member returns the permit of a holder with a position from 0: a member of the set of the permits that are taken.
local function member(holder, position)
  return holder .. string.char(math.floor(position / 256), position % 256)
end

-- each calls serve for each name of a call: with the two keys of the name, and the index of its first argument.
-- From first on, ARGV has size arguments for a name, of which the last says how many holders follow, and the
-- holders. each returns an array of what serve returns. If serve fails, the error is the answer for the name.
local function each(first, size, serve)
  local out = {}
  for i = 1, #KEYS / 2 do
    local ok, answer = pcall(serve, KEYS[2 * i - 1], KEYS[2 * i], first)
    if not ok and type(answer) ~= 'table' then
      answer = {err = tostring(answer)}
    end
    out[i] = answer
    first = first + size + tonumber(ARGV[first + size - 1])
  end
  return out
end
