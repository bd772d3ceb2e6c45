/**
 * Returns the frequency of the host's time stamp counter, from the text of /proc/cpuinfo (proc_cpuinfo(5)); undefined
 * if it is not shown there. `cpu MHz` is the counter's frequency if the kernel knows it from outside (`tsc_known_freq`,
 * as from hypervisors) and cannot measure the present frequency of the core (`aperfmperf`).
 */
export function knownTscKhz(cpuinfo: string): number | undefined {
  const flags = new Set(/^flags\s*: (.*)$/m.exec(cpuinfo)?.[1]?.split(' '))
  if (!flags.has('constant_tsc') || !flags.has('tsc_known_freq') || flags.has('aperfmperf')) return undefined
  const mhz = /^cpu MHz\s*: ([\d.]+)$/m.exec(cpuinfo)?.[1]
  return mhz === undefined ? undefined : Math.round(Number(mhz) * 1000)
}
