import { readFileSync } from 'node:fs'
import { countCpus, parseMeminfo } from '../../core/capacity/proc.ts'
import { HostFault } from '../../core/errors.ts'
import { storageFault } from '../files/storage-fault.ts'
import type { MemoryFigures } from '../../ports/host-figures.ts'

/** Kernel: Documentation/ABI/stable/sysfs-devices-system-cpu. */
const ONLINE = '/sys/devices/system/cpu/online'

/** Reads the host's memory. Throws HostFault `capacity_unknown`. */
export const memoryFigures = (path = '/proc/meminfo'): MemoryFigures =>
  readFigure(path, 'reading how much memory the host has', parseMeminfo)

/**
 * Counts the CPUs online, including those that an affinity mask keeps from this process. Throws HostFault
 * `capacity_unknown`.
 */
export const onlineCpus = (path = ONLINE): number =>
  readFigure(path, 'reading how many CPUs are online', countCpus)

/** Reads a figure, synchronously. The kernel answers from memory, and a dead disk may hold all threads of Node. */
function readFigure<T>(path: string, doing: string, parse: (text: string) => T | undefined): T {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw storageFault(error, doing, 'capacity_unknown')
  }
  const figure = parse(text)
  if (figure === undefined)
    throw new HostFault('capacity_unknown', doing, { cause: new Error('it is not as the kernel writes it') })
  return figure
}
