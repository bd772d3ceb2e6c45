/**
 * The steps of systemd before it runs a program, by the exit status when one fails (systemd.exec(5), "Process Exit
 * Codes"). Only those are listed that fail on a wrongly configured host.
 */
const STEPS: Readonly<Record<number, string>> = {
  203: 'running the program',
  208: 'opening the console as standard input',
  209: 'opening the console as standard output',
  214: 'setting the scheduling',
  216: 'joining the supplementary groups',
  217: 'looking up the user; is libnss-systemd installed and `systemd` in the line `passwd:` of /etc/nsswitch.conf?',
  219: 'joining the control group',
  226: 'building the file system; a path that the VM needs is missing',
  228: 'filtering system calls',
  233: 'making the runtime directory',
}

/** The program was not found or may not be run (EXIT_EXEC). */
export const EXIT_EXEC = 203

/** Describes the exit of a service, e.g. `exit-code, status 217, while looking up the user`. */
export function describeExit(result: string, status: number): string {
  const step = result === 'exit-code' ? STEPS[status] : undefined
  return [result, `status ${status}`, ...(step === undefined ? [] : [`while ${step}`])].join(', ')
}
