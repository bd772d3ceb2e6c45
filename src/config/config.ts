import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import { Value } from 'typebox/value'
import { parseNetwork } from '../core/network/address.ts'
import { parseNameServer } from '../core/network/guest-address.ts'
import { given } from '../lib/given.ts'
import { camelKeys } from '../lib/text.ts'
import { checkerFor } from '../lib/schema-check.ts'
import { configSchema, patternWords } from './schema.ts'
import type { CamelKeys } from '../lib/text.ts'
import type { Result } from '../lib/result.ts'
import type { ConfigFile } from './schema.ts'

export const CONFIG_PATH = '/etc/vmhostd/config.toml'

/** The daemon's settings: complete, checked and frozen. */
export type Config = CamelKeys<ConfigFile> & { readonly coordination: NodeFiles }

type NodeFiles = {
  readonly caFile: string
  readonly certificateFile: string
  readonly keyFile: string
  readonly revocationFile?: string
}

/** The configuration cannot be used; the message lists everything that is wrong with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

type Problem = { readonly key: string; readonly detail: string }

const check = checkerFor(configSchema, patternWords)

/** Reads the file at `path`; `machine` is the host name, the default of host.id. Throws ConfigError. */
export function loadConfig(path: string = CONFIG_PATH, machine: string = hostname()): Config {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT')
      throw new ConfigError(`${path} is not there: "vmhostd setup" writes one to start from`)
    throw new ConfigError(`${path} cannot be read`, { cause })
  }
  return parseConfig(text, { path, hostname: machine })
}

/** Returns the configuration in `text`, with defaults filled in. `path` is for messages only. Throws ConfigError. */
export function parseConfig(
  text: string,
  source: { readonly path: string; readonly hostname: string },
): Config {
  const file: unknown = Value.Default(configSchema, parseToml(text, source.path))
  fillHostId(file, source.hostname)
  const problems = check(file).map(({ pointer, detail }): Problem => ({ key: keyOf(pointer), detail }))
  if (problems.length > 0) throw refusal(source.path, problems)
  const config = withNodeFiles(camelKeys(file as ConfigFile))
  const contradictions = contradictionsIn(config)
  if (contradictions.length > 0) throw refusal(source.path, contradictions)
  return config
}

function parseToml(text: string, path: string): unknown {
  try {
    return parse(text)
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause
    const [reason] = cause.message.split('\n')
    throw new ConfigError(`${path}, line ${cause.line}, column ${cause.column}: ${reason}`)
  }
}

function fillHostId(file: unknown, machine: string): void {
  const host: unknown = typeof file === 'object' && file !== null ? Reflect.get(file, 'host') : undefined
  if (typeof host === 'object' && host !== null && !('id' in host)) Reflect.set(host, 'id', machine)
}

/**
 * Fills in the files of the coordination listener. Set-up puts the node's certificate beside the server's, under the
 * same authority.
 */
function withNodeFiles(written: CamelKeys<ConfigFile>): Config {
  const { caFile, certificateFile, revocationFile } = written.controller
  const beside = (name: string): string => join(dirname(certificateFile), name)
  const files: NodeFiles = { caFile, certificateFile: beside('node.crt'), keyFile: beside('node.key') }
  const { caFile: own = caFile } = written.coordination
  const revoked = own === caFile ? given({ revocationFile }) : {}
  return Object.freeze({
    ...written,
    coordination: Object.freeze({ ...files, ...revoked, ...written.coordination }),
  })
}

/** Finds what the schema cannot see: keys that are valid alone but contradict each other. */
function contradictionsIn(config: Config): Problem[] {
  const { vms, network, objectStore, sleep } = config
  const problems = [
    ...wrongTexts('network.guest_ranges', network.guestRanges, parseNetwork),
    ...wrongTexts('network.name_servers', network.nameServers, parseNameServer),
    ...wrongTexts('sleep.ignore_sources', sleep.ignoreSources, parseNetwork),
    ...wrongTexts('object_store.allowed_networks', objectStore.allowedNetworks, parseNetwork),
    ...wrongListeners(config),
    ...wrongClients(config),
  ]
  if (vms.userIdFirst + vms.userIdCount - 1 > 4_294_967_293) {
    problems.push({ key: 'vms.user_id_count', detail: 'reaches beyond the last user id, 4294967293' })
  }
  problems.push(...wrongDirectories(config))
  // Unsigned: JavaScript's operators work on signed numbers.
  if ((sleep.ignoreMark & ~sleep.ignoreMarkMask) >>> 0 !== 0) {
    problems.push({
      key: 'sleep.ignore_mark',
      detail: 'has bits that sleep.ignore_mark_mask has not: it would match no packet',
    })
  }
  return problems
}

function wrongDirectories({ stateDirectory, runDirectory, storage }: Config): Problem[] {
  const problems: Problem[] = []
  // Monitors have their directories in it by RuntimeDirectory= (systemd.exec(5)), which takes only such paths.
  if (!runDirectory.startsWith('/run/') || resolve(runDirectory) !== runDirectory) {
    problems.push({ key: 'run_directory', detail: 'must be a path below /run, such as /run/vmhostd' })
  }
  // sun_path of unix(7) has 108 bytes; below are `<63 characters>/<socket>.sock`.
  if (Buffer.byteLength(runDirectory) > 28) {
    problems.push({ key: 'run_directory', detail: 'must be at most 28 bytes long: socket paths have an end' })
  }
  const lasting = { state_directory: stateDirectory, 'storage.pool_directory': storage.poolDirectory }
  for (const [key, directory] of Object.entries(lasting)) {
    if (`${resolve(directory)}/`.startsWith(`${resolve(runDirectory)}/`))
      problems.push({ key, detail: 'must not be in run_directory, which is emptied at boot' })
  }
  return problems
}

function wrongListeners({ host, controller, coordination, metrics }: Config): Problem[] {
  const problems = Object.entries({ controller, coordination, metrics }).flatMap(
    ([name, { listenAddress }]) =>
      isIP(bareAddress(listenAddress)) === 0
        ? [{ key: `${name}.listen_address`, detail: 'must be an IPv4 or IPv6 address' }]
        : [],
  )
  if (coordination.enabled && coordination.port === controller.port) {
    problems.push({ key: 'coordination.port', detail: 'must differ from controller.port' })
  }
  if (metrics.enabled && metrics.port === controller.port) {
    problems.push({ key: 'metrics.port', detail: 'must differ from controller.port' })
  }
  if (metrics.enabled && coordination.enabled && metrics.port === coordination.port) {
    problems.push({ key: 'metrics.port', detail: 'must differ from coordination.port' })
  }
  if (metrics.commonNames.includes(host.id)) {
    problems.push({
      key: 'metrics.common_names',
      detail: "must not have host.id: a node's certificate has that name",
    })
  }
  if (host.id === controller.commonName) {
    problems.push({
      key: 'host.id',
      detail: "must differ from controller.common_name: a node's certificate has it",
    })
  }
  return problems
}

/** A name has one role, and only a console client has VMs of its own. */
function wrongClients({ host, controller }: Config): Problem[] {
  const taken = new Map([
    [host.id, 'host.id'],
    [controller.commonName, 'controller.common_name'],
  ])
  return controller.clients.flatMap(({ commonName, role, vm, label }, index) => {
    const key = `controller.clients.${index}`
    const other = taken.get(commonName)
    taken.set(commonName, key)
    const scopes = [vm, label].filter((one) => one !== undefined).length
    return [
      ...(other === undefined ? [] : [{ key: `${key}.common_name`, detail: `must differ from ${other}` }]),
      ...(role === 'console' && scopes !== 1 ? [{ key, detail: 'needs vm or label, one of them' }] : []),
      ...(role !== 'console' && scopes > 0
        ? [{ key, detail: `may not have vm or label: the role ${role} is for all VMs` }]
        : []),
    ]
  })
}

function wrongTexts(
  key: string,
  texts: readonly string[],
  parsed: (text: string) => Result<string, string>,
): Problem[] {
  return texts.flatMap((text, index) => {
    const result = parsed(text)
    return result.ok ? [] : [{ key: `${key}.${index}`, detail: result.error }]
  })
}

/** Removes the brackets of `[::]`. Operators write both forms; the kernel takes only `::` as an address. */
export const bareAddress = (text: string): string => text.replace(/^\[(.*)\]$/, '$1')

const keyOf = (pointer: string): string =>
  pointer === '' ? 'the file' : pointer.slice(1).replaceAll('/', '.')

function refusal(path: string, problems: readonly Problem[]): ConfigError {
  const lines = problems.map(({ key, detail }) => `  ${key} ${detail}`)
  return new ConfigError(`${path} cannot be used:\n${lines.join('\n')}`)
}
