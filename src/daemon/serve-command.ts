import { parseArgs } from 'node:util'
import { CONFIG_PATH, ConfigError, loadConfig } from '../config/config.ts'
import { errorChain } from '../log/error-chain.ts'
import { renderHelp } from './help/command-help.ts'
import { serveHelp } from './help/host-help.ts'
import { exitNow } from '../host/ffi/this-process.ts'
import { createLog } from '../log/logger.ts'
import { configFault } from './config-fault.ts'
import { Daemon } from './daemon.ts'
import { isJournal, logWhatNodeSays } from './daemon-process.ts'

const HELP = renderHelp(serveHelp)

/** Runs `vmhostd serve`. Exit status 0 after a signal, 1 if the daemon cannot start. */
export async function serveCommand(args: readonly string[]): Promise<number> {
  const options = {
    config: { type: 'string', default: CONFIG_PATH },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values } = parseArgs({ args: [...args], options })
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  const stopped = Promise.withResolvers<string>()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopped.resolve(signal))
  const inJournal = isJournal()
  if (inJournal) logWhatNodeSays(createLog({ level: 'info', priorityPrefix: true }))
  let daemon: Daemon
  try {
    const config = loadConfig(values.config)
    daemon = await Daemon.start(config, createLog({ level: config.log.level, priorityPrefix: inJournal }))
  } catch (error) {
    const reason = error instanceof ConfigError ? configFault(error) : errorChain(error)
    if (inJournal)
      createLog({ level: 'error', priorityPrefix: true }).error({ reason }, 'vmhostd cannot start')
    else console.error(error instanceof ConfigError ? reason : `vmhostd cannot start: ${reason}`)
    // A part that has started would keep the process alive, and systemd would wait for it.
    return exitNow(1)
  }
  await daemon.stop(await stopped.promise)
  // Do not wait for work that runs past the bound. Guests keep running without the daemon, and the next start finds how
  // far the work came.
  return exitNow(0)
}
