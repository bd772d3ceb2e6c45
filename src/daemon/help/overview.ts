import { renderTerms } from './command-help.ts'
import { doctorHelp, issueHelp, renewHelp, serveHelp, setupHelp } from './host-help.ts'
import { consoleHelp, planHelp, versionHelp } from './question-help.ts'
import { backupHelp, recoverHelp, restoreHelp } from './recovery-help.ts'
import type { CommandHelp } from './command-help.ts'

/** All commands of vmhostd, in the order of its help. */
export const commandHelps: readonly CommandHelp[] = [
  setupHelp,
  serveHelp,
  issueHelp,
  renewHelp,
  planHelp,
  consoleHelp,
  doctorHelp,
  backupHelp,
  restoreHelp,
  recoverHelp,
  versionHelp,
]

const ABOUT = 'vmhostd runs microVMs on this host and serves an HTTP API over mutual TLS.'

/** Makes a host ready and starts the daemon, for a shell. */
export const FIRST_STEPS = 'vmhostd setup && systemctl enable --now vmhostd'

/** Renders what `vmhostd --help` prints. */
export function renderOverview(): string {
  const entries = commandHelps.map(({ name, operand, summary }) => {
    const term = operand === undefined ? name : `${name} ${operand}`
    return [term, summary] as const
  })
  return [
    ABOUT,
    'Usage: vmhostd COMMAND [OPTIONS]',
    `Commands:\n${renderTerms(entries)}`,
    `A new host:  ${FIRST_STEPS}\nEach command answers --help.`,
  ].join('\n\n')
}
