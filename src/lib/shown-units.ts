/** Shows MiB in the largest unit that needs at most two digits after the point. */
export function showMib(mib: number): string {
  const [size, unit] =
    mib >= 1024 * 1024 ? [mib / (1024 * 1024), 'TiB'] : mib >= 1024 ? [mib / 1024, 'GiB'] : [mib, 'MiB']
  return `${Number(size.toFixed(2))} ${unit}`
}

export const showCores = (millicores: number): string => String(millicores / 1000)

/** Shows the two largest units of a span: `45 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`. */
export function showSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  if (first === -1) return '0 s'
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ')
}
