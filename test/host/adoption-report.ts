import { sh } from '../../lab/inside/shell.ts'

/** Returns the newest report of the daemon on the consoles that it adopted. */
export async function adoptionReport(): Promise<Record<string, unknown>> {
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat')
  const line = log.split('\n').findLast((text) => text.includes('adopted_console_count')) ?? '{}'
  return JSON.parse(line) as Record<string, unknown>
}
