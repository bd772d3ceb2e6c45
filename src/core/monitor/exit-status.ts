/**
 * Meanings of the exit statuses of monitors. Those from 148 on are Firecracker's (its FcExitCode, src/vmm/src/lib.rs);
 * QEMU uses none of them.
 */
const STATUSES: Readonly<Record<number, string>> = {
  1: 'it could not start or continue its guest; the journal of the unit has its reason',
  148: 'it made a system call that its filter refuses (SIGSYS); is this version of Firecracker supported?',
  149: 'it could not read a page of its memory (SIGBUS); its saved memory was cut short, or the disk of the pool fails',
  150: 'it used memory that it does not have (SIGSEGV), which is a defect of the monitor',
  151: 'it wrote a file beyond the limit of its size (SIGXFSZ)',
  152: 'it could not use its configuration; the journal of the unit has its reason',
  153: 'it could not use its arguments; is this version of Firecracker supported?',
  154: 'it used more processor time than its limit (SIGXCPU)',
  155: 'it wrote to a connection that was closed (SIGPIPE)',
  156: 'its console was closed (SIGHUP)',
  157: 'it used an instruction that the processor does not have (SIGILL)',
}

/** Describes how a unit's program ended, as org.freedesktop.systemd1(5) reports it: Result and ExecMainStatus. */
export function exitInWords(result: string, status: number): string {
  const meaning = result === 'exit-code' ? STATUSES[status] : undefined
  return `${result}, status ${status}${meaning === undefined ? '' : `: ${meaning}`}`
}

/** The statuses with a meaning, in order, for the documents. */
export const knownStatuses: readonly (readonly [status: number, meaning: string])[] = Object.entries(
  STATUSES,
).map(([status, meaning]) => [Number(status), meaning])
