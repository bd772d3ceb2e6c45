const KIB_A_MIB = 1024

/**
 * Returns total and available memory from /proc/meminfo (proc_meminfo(5)), in MiB; undefined if one of the two lines is
 * missing.
 */
export function parseMeminfo(text: string): { totalMib: number; availableMib: number } | undefined {
  const mib = (name: string): number | undefined => {
    const kib = new RegExp(`^${name}: +([0-9]+) kB$`, 'm').exec(text)?.[1]
    return kib === undefined ? undefined : Math.floor(Number(kib) / KIB_A_MIB)
  }
  const totalMib = mib('MemTotal')
  const availableMib = mib('MemAvailable')
  return totalMib === undefined || availableMib === undefined ? undefined : { totalMib, availableMib }
}

/**
 * Returns how many CPUs a list like `0-3,8` names (kernel: admin-guide/cputopology.rst); undefined if it is not such a
 * list.
 */
export function countCpus(list: string): number | undefined {
  let count = 0
  for (const range of list.trim().split(',')) {
    const [, first, last = first] = /^([0-9]+)(?:-([0-9]+))?$/.exec(range) ?? []
    if (first === undefined || Number(last) < Number(first)) return undefined
    count += Number(last) - Number(first) + 1
  }
  return count
}
