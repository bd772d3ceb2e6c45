import { isIP } from 'node:net'
import { parseArgs } from 'node:util'
import { CONFIG_PATH } from '../../config/config.ts'
import { UsageError } from '../usage-error.ts'
import { SetupError } from './setup-report.ts'

export type SetupOptions = {
  readonly help: boolean
  readonly configPath: string
  readonly extraNames: readonly string[]
  readonly replacePool: boolean
  /** Settings for a new configuration; empty if the operator gave none. */
  readonly settings: readonly ConfigSetting[]
}

/** The key of a new configuration that each option sets. */
const SETTING_OPTIONS = {
  'host-id': ['host.id'],
  'common-name': ['controller.common_name'],
  'pool-directory': ['storage.pool_directory'],
  'state-directory': ['state_directory'],
  'run-directory': ['run_directory'],
  'local-images-directory': ['storage.local_images_directory'],
} as const satisfies Record<string, readonly string[]>

/** Throws UsageError, or an error of `parseArgs`. */
export function parseSetupOptions(argv: readonly string[]): SetupOptions {
  const values = parse(argv)
  const settings = Object.entries(SETTING_OPTIONS).flatMap(([option, keys]): ConfigSetting[] => {
    const value = values[option]
    return typeof value === 'string' ? keys.map((key) => [key, value] as const) : []
  })
  const tls = values['tls-directory']
  if (typeof tls === 'string') {
    settings.push(
      ['controller.ca_file', `${tls}/ca.crt`],
      ['controller.certificate_file', `${tls}/server.crt`],
      ['controller.key_file', `${tls}/server.key`],
    )
  }
  return {
    help: values['help'] === true,
    configPath: typeof values['config'] === 'string' ? values['config'] : CONFIG_PATH,
    extraNames: (Array.isArray(values['san']) ? values['san'].map(String) : []).map(checkName),
    replacePool: values['replace-pool'] === true,
    settings,
  }
}

/** A name that certificates may hold (RFC 5280, 4.2.1.6), with `*` for a first label, or an address. */
const DNS_NAME =
  /^(?=.{1,253}$)(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** Returns a name for a certificate. Throws UsageError if it cannot be one. */
export function checkName(name: string): string {
  // A certificate cannot hold a zone, as in fe80::1%eth0.
  if (DNS_NAME.test(name) || (isIP(name) !== 0 && !name.includes('%'))) return name
  throw new UsageError(
    `--san ${JSON.stringify(name)} is neither a host name nor an IP address: give it as host-1.example.net or 192.0.2.1`,
  )
}

function parse(argv: readonly string[]): Readonly<Record<string, unknown>> {
  const text = { type: 'string' } as const
  const names = [...Object.keys(SETTING_OPTIONS), 'config', 'tls-directory']
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...Object.fromEntries(names.map((name) => [name, text])),
      san: { type: 'string', multiple: true },
      'replace-pool': { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  return values
}

/** A key of the configuration with its value: `controller.common_name`, or `state_directory` at the top. */
type ConfigSetting = readonly [key: string, value: string]

/**
 * Renders the example configuration with some keys set. It replaces the commented line of each key, so that the
 * operator finds the value beside its explanation.
 */
export function renderConfig(example: string, settings: readonly ConfigSetting[]): string {
  const wanted = new Map(settings)
  let table = ''
  const lines = example.split('\n').map((line) => {
    table = /^\[(\w+)\]$/.exec(line)?.[1] ?? table
    const name = /^#(?: {3}Example: )?(\w+) = /.exec(line)?.[1]
    const key = table === '' ? name : `${table}.${name}`
    const value = key === undefined ? undefined : wanted.get(key)
    if (key === undefined || value === undefined) return line
    wanted.delete(key)
    return `${name} = ${tomlString(value)}`
  })
  const [left] = wanted.keys()
  if (left !== undefined) throw new SetupError(`the example configuration has no key ${left}`)
  return lines.join('\n')
}

/**
 * Writes a TOML basic string. JSON strings are valid ones, except for DEL, which JSON leaves unescaped (toml.io,
 * "String").
 */
const tomlString = (value: string): string => JSON.stringify(value).replaceAll('\u007f', '\\u007f')
