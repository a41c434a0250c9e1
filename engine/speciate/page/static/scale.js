// From values to places on a chart, and the round values beside its axes.

const HALF_DECADES = [1, 2, 5];

/** Round values between two others, about so many. */
function round(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  const first = Math.ceil(low / step) * step;
  const count = Math.floor((high - first) / step + 1e-9);
  return Array.from({ length: count + 1 }, (_, n) => Number((first + n * step).toPrecision(12)));
}

/** A linear scale; whole numbers only if `whole`. */
export function linear(low, high, from, to, wanted, whole = false) {
  const size = high - low || 1;
  const at = (value) => from + ((value - low) / size) * (to - from);
  let ticks = [];
  // Two at least, however little room there is: one alone is no scale.
  for (let more = wanted; ticks.length < 2 && more < wanted + 9; more += 1) {
    ticks = round(low, high, more).filter((one) => !whole || Number.isInteger(one));
  }
  return { at, back: (place) => low + ((place - from) / (to - from)) * size, ticks };
}

/** A logarithmic scale; what is not above `low` is put at its foot. */
function logarithmic(low, high, from, to, wanted) {
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const size = last - first || 1;
  const at = (value) => from + ((Math.log10(Math.max(value, low)) - first) / size) * (to - from);
  const powers = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); power += 1) {
    for (const part of size < 2 ? HALF_DECADES : [1]) powers.push(part * 10 ** power);
  }
  const inside = powers.filter((one) => one >= low * 0.999 && one <= high * 1.001);
  const every = Math.ceil(inside.length / Math.max(2, wanted));
  return { at, ticks: inside.filter((_, n) => n % every === 0) };
}

/** A scale for what is to be shown: logarithmic where values differ by more than a factor of 30. */
export function suitable(values, from, to, wanted) {
  const there = values.filter((value) => value !== null && Number.isFinite(value));
  const above = there.filter((value) => value > 0);
  if (!there.length) return linear(0, 1, from, to, wanted);
  const [least, most] = [Math.min(...above), Math.max(...there)];
  if (above.length >= there.length * 0.9 && most / least > 30)
    return logarithmic(Math.max(least, most / 1e7), most * 1.1, from, to, wanted);
  return linear(Math.min(0, ...there), most * 1.05 || 1, from, to, wanted);
}
