import { run, runAttached } from '../tools/process.ts'
import type { AttachOptions, RunOptions, RunResult } from '../tools/process.ts'
import type { LabState } from './state.ts'

/** Path of the node that runs this, inside every lab, through the checkout's bind mount. */
export const LAB_NODE = `/src/node_modules/node-linux-${process.arch}/bin/node`

const ENVIRONMENT = {
  PATH: `/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:${LAB_NODE.replace(/\/node$/, '')}`,
  HOME: '/root',
  LANG: 'C.UTF-8',
}

function enter(state: LabState, argv: readonly string[], env: NodeJS.ProcessEnv): string[] {
  if (state.leader === undefined) throw new Error(`the lab ${state.name} has no init yet`)
  const pairs = Object.entries({ ...ENVIRONMENT, ...env }).map(([key, value]) => `${key}=${value ?? ''}`)
  const namespaces = ['-m', '-u', '-i', '-n', '-p', '-C']
  return ['nsenter', '-t', String(state.leader.pid), ...namespaces, '--', 'env', '-i', ...pairs, ...argv]
}

/** Runs a command as root inside a lab, with a clean environment, and returns its output. */
export function execIn(
  state: LabState,
  argv: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  return run(enter(state, argv, options.env ?? {}), { ...options, env: process.env })
}

/** Returns the command that runs a program of this machine in a lab's network: none of its packets leave the lab. */
export function besideLab(state: LabState, argv: readonly string[]): string[] {
  if (state.leader === undefined) throw new Error(`the lab ${state.name} has no init yet`)
  return ['nsenter', '-t', String(state.leader.pid), '-n', '--', ...argv]
}

/** Environment variable with the name of the lab, for a test that runs beside one. */
export const LAB_IN_ENVIRONMENT = 'VMHOSTD_LAB'

/** Environment variable with the names of several labs, for a program that runs beside them. */
const LABS_IN_ENVIRONMENT = 'VMHOSTD_LABS'

type Command = { readonly argv: readonly string[]; readonly env: NodeJS.ProcessEnv }

/**
 * Returns the command that runs a program of this machine in a network of its own, from which it can lay wires to these
 * labs. The kernel ends the program with this process, and the network with the program.
 */
export const besideLabs = (labs: readonly LabState[], argv: readonly string[]): Command => ({
  argv: ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--net', '--', ...argv],
  env: { ...process.env, [LABS_IN_ENVIRONMENT]: labs.map(({ name }) => name).join(' ') },
})

/** Names of the labs that this program runs beside; empty if there are none. */
export const labsBeside = (): readonly string[] =>
  (process.env[LABS_IN_ENVIRONMENT] ?? '').split(' ').filter(Boolean)

/** Runs a command inside a lab on our own terminal, for a person to work with. */
export function attachTo(
  state: LabState,
  argv: readonly string[],
  options: AttachOptions = {},
): Promise<number> {
  const env = process.env['TERM'] === undefined ? {} : { TERM: process.env['TERM'] }
  return runAttached(enter(state, argv, env), options)
}
