import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../config/config.ts'
import { printableLines } from '../lib/text.ts'
import { errorChain } from '../log/error-chain.ts'
import { askDaemon } from './admin-socket.ts'
import type { AdminQuestion } from './admin-socket.ts'

type Question = {
  readonly name: AdminQuestion
  readonly help: string
  /** Whether --raw may print the answer byte for byte. */
  readonly mayBeRaw?: boolean
}

/** Makes a command about one VM that the running daemon answers. */
const question =
  ({ name, help, mayBeRaw = false }: Question): ((args: readonly string[]) => Promise<number>) =>
  async (args) => {
    const options = {
      config: { type: 'string', default: CONFIG_PATH },
      ...(mayBeRaw ? { raw: { type: 'boolean' } as const } : {}),
      help: { type: 'boolean', short: 'h' },
    } as const
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const usage = `Usage: vmhostd ${name} VM [--config FILE]${mayBeRaw ? ' [--raw]' : ''}\n\n${help}`
    if (values.help === true) {
      console.log(usage)
      return 0
    }
    const [id] = positionals
    if (id === undefined || positionals.length > 1) {
      console.error(usage)
      return 2
    }
    try {
      const answer = await askDaemon(loadConfig(values.config).runDirectory, name, id)
      process.stdout.write(values['raw'] === true ? answer : printableLines(answer.toString()))
      return 0
    } catch (error) {
      console.error(`vmhostd ${name}: ${errorChain(error)}`)
      return 1
    }
  }

/** Runs `vmhostd plan VM`. */
export const planCommand = question({
  name: 'plan',
  help: 'Prints what the running daemon would do next for a VM, step by step with the reasons. Changes nothing.',
})

/** Runs `vmhostd console VM`. */
export const consoleCommand = question({
  name: 'console',
  help: `Prints the newest output of a VM's serial console, as far as the daemon keeps it. Escape sequences and control
characters are left out, since a guest could steer your terminal with them. --raw prints every byte.`,
  mayBeRaw: true,
})
