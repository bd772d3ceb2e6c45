import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../config/config.ts'
import { errorChain } from '../log/error-chain.ts'
import { askDaemon } from './admin-socket.ts'
import type { Command } from './command-line.ts'
import type { AdminQuestion } from './admin-socket.ts'

/** A command about one VM that the running daemon answers. */
const question =
  (name: AdminQuestion, help: string): Command =>
  async (args) => {
    const options = {
      config: { type: 'string', default: CONFIG_PATH },
      help: { type: 'boolean', short: 'h' },
    } as const
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const usage = `Usage: vmhostd ${name} VM [--config FILE]\n\n${help}`
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
      process.stdout.write(await askDaemon(loadConfig(values.config).runDirectory, name, id))
      return 0
    } catch (error) {
      console.error(`vmhostd ${name}: ${errorChain(error)}`)
      return 1
    }
  }

/** `vmhostd plan VM`. */
export const planCommand = question(
  'plan',
  'Prints what the running daemon would do next for a VM, step by step with the reasons. Changes nothing.',
)

/** `vmhostd console VM`. */
export const consoleCommand = question(
  'console',
  "Prints the newest output of a VM's serial console, as far as the daemon keeps it.",
)
