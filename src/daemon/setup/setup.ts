import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { CONFIG_PATH, ConfigError, loadConfig, parseConfig } from '../../config/config.ts'
import { whyNotHostId } from '../../config/schema.ts'
import { errorChain } from '../../log/error-chain.ts'
import { configFault } from '../config-fault.ts'
import { writeNewFiles } from '../new-files.ts'
import { renderHelp } from '../help/command-help.ts'
import { setupHelp } from '../help/host-help.ts'
import { ensureCertificates } from './ensure-certificates.ts'
import { ensureDirectories, ensureProfile, ensureSshKey } from './ensure-files.ts'
import { renderConfig, parseSetupOptions } from './setup-options.ts'
import { ensurePool } from './ensure-pool.ts'
import { ownUrl } from './own-address.ts'
import { SetupError, SetupReport } from './setup-report.ts'
import type { Config } from '../../config/config.ts'
import type { CertificatePaths } from './ensure-certificates.ts'
import type { PoolOptions } from './ensure-pool.ts'
import type { SetupOptions } from './setup-options.ts'
import { hostname } from 'node:os'
import { markPool } from '../../host/pool/pool-marker.ts'
import { readAsset } from '../assets.ts'

/** Parts of the machine that set-up uses. */
type SetupMachine = {
  readonly hostname: string
  readonly nowMs: number
  /** The text of `config.example.toml`. */
  readonly exampleConfig: string
  readonly markPool: PoolOptions['markPool']
  readonly print: (text: string) => void
  readonly printError: (text: string) => void
}

/** Runs `vmhostd setup`; returns the exit status. Throws what `parseSetupOptions` throws. */
export async function setup(argv: readonly string[], machine: SetupMachine): Promise<0 | 1> {
  const options = parseSetupOptions(argv)
  if (options.help) {
    machine.print(renderHelp(setupHelp))
    return 0
  }
  const report = new SetupReport()
  try {
    await prepare(options, machine, report)
  } catch (error) {
    if (report.text !== '') machine.print(report.text)
    machine.printError(`vmhostd setup: ${explain(error)}`)
    return 1
  }
  return report.complete ? 0 : 1
}

async function prepare(options: SetupOptions, machine: SetupMachine, report: SetupReport): Promise<void> {
  const config = ensureConfig(options, machine, report)
  ensureDirectories(config, report)
  await ensurePool({ ...machine, config, replace: options.replacePool, report })
  ensureSshKey(config, report)
  const paths = await ensureCertificates({
    config,
    hostname: machine.hostname,
    extraNames: options.extraNames,
    nowMs: machine.nowMs,
    report,
  })
  ensureProfile(options.configPath, config, { paths, report })
  const next = report.complete
    ? nextSteps(options.configPath, config, paths)
    : 'Add what is missing, then run this again.'
  machine.print(`${report.text}\n\n${next}\n`)
}

function ensureConfig(options: SetupOptions, machine: SetupMachine, report: SetupReport): Config {
  const { configPath, settings } = options
  if (existsSync(configPath)) {
    const [given] = settings
    if (given !== undefined) {
      throw new SetupError(
        `${configPath} is there already: set ${given[0]} in it, and run this without that option`,
      )
    }
    const config = loadConfig(configPath, machine.hostname)
    report.kept(configPath, 'configuration')
    return config
  }
  // Certificates keep this name. If the machine gets another one later, the host must keep it too.
  const named = settings.some(([key]) => key === 'host.id')
  const because = named ? undefined : whyNotHostId(machine.hostname)
  if (because !== undefined)
    throw new SetupError(
      `the host name ${JSON.stringify(machine.hostname)} cannot be the id of this host, which ${because}: name another one with --host-id`,
    )
  const all = named ? settings : ([...settings, ['host.id', machine.hostname]] as const)
  const text = renderConfig(machine.exampleConfig, all)
  const config = parseConfig(text, { path: configPath, hostname: machine.hostname })
  mkdirSync(dirname(configPath), { recursive: true, mode: 0o755 })
  writeNewFiles([{ path: configPath, content: text, mode: 0o644 }])
  report.made(configPath, 'configuration, with every key and its default')
  return config
}

function nextSteps(
  configPath: string,
  config: Config,
  { authority, controller: client }: CertificatePaths,
): string {
  const { coordination } = config
  const { certificate, key } = client
  const url = ownUrl(config)
  return `Next:
  1. See what this host still lacks:
       vmhostd doctor${configPath === CONFIG_PATH ? '' : ` --config ${configPath}`}
  2. Set network.guest_ranges in ${configPath} to the networks of your guests, so that none
     gets an address of somebody else; without it any address is taken. Then start the daemon:
       systemctl enable --now vmhostd
  3. Ask it something, as the controller would:
       vmhostctl sync
       curl --cacert ${authority.certificate} --cert ${certificate} --key ${key} \\
         ${url}/healthz
     and read ${url}/docs in a browser that has that certificate.
  4. Give the controller ${certificate}, ${key} and ${authority.certificate}
     (for vmhostctl elsewhere: with a profile; vmhostctl shows an example if it finds none),
     then keep ${authority.key} in a safe place off this host: it can sign controllers.${
       coordination.enabled
         ? `
  5. Hosts move VMs between each other on port ${coordination.port}, if one authority has signed the certificates of all
     of them: see "Certificates of nodes" in certificates.md. Until then no other host is admitted there.`
         : ''
     }`
}

/** Adds advice to the most likely failure, a missing permission. */
function explain(error: unknown): string {
  if (error instanceof SetupError) return error.message
  if (error instanceof ConfigError) return configFault(error)
  const denied =
    error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM')
  return denied ? `${errorChain(error)}: run this as root` : errorChain(error)
}

/** Runs `vmhostd setup`. */
export const setupCommand = (args: readonly string[]): Promise<number> =>
  setup(args, {
    hostname: hostname(),
    nowMs: Date.now(),
    exampleConfig: Buffer.from(readAsset('config.example.toml')).toString(),
    markPool,
    print: (text) => console.log(text),
    printError: (text) => console.error(text),
  })
