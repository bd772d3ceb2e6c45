import { parseArgs } from 'node:util'
import { CONFIG_PATH } from '../config/config.ts'
import { errorChain } from '../log/error-chain.ts'
import { renderHelp } from './help/command-help.ts'
import { UsageError } from './usage-error.ts'
import type { ParseArgsOptionsConfig } from 'node:util'
import type { CommandHelp } from './help/command-help.ts'

/** Options that each command has besides its own. */
const COMMON = {
  config: { type: 'string', default: CONFIG_PATH },
  help: { type: 'boolean', short: 'h' },
} as const

type Parsed<Own extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ readonly options: typeof COMMON & Own }>
>

/** A command without an operand in its help takes none. */
type OperatorCommand<Own extends ParseArgsOptionsConfig> = {
  readonly help: CommandHelp
  readonly options: Own
  /**
   * Resolves with the exit status; `help` if the operands are wrong and the help says how they should be. Throws
   * UsageError, or any other error for the operator.
   */
  readonly run: (values: Parsed<Own>['values'], operands: readonly string[]) => Promise<number | 'help'>
}

/** Makes a command of vmhostd: takes the arguments after its name, and resolves with the exit status. */
export const operatorCommand =
  <const Own extends ParseArgsOptionsConfig>({ help, options, run }: OperatorCommand<Own>) =>
  async (args: readonly string[]): Promise<number> => {
    const { values, positionals } = parseArgs({
      args,
      options: { ...COMMON, ...options },
      allowPositionals: help.operand !== undefined,
    })
    if ('help' in values) {
      console.log(renderHelp(help))
      return 0
    }
    try {
      const status = await run(values, positionals)
      if (status !== 'help') return status
      console.error(renderHelp(help))
      return 2
    } catch (error) {
      if (error instanceof UsageError) throw error
      console.error(`vmhostd ${help.name}: ${errorChain(error)}`)
      return 1
    }
  }
