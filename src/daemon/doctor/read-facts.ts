import { release } from 'node:os'
import {
  advertisedRoutes,
  connectionsMaxOf,
  controllersIn,
  forwardingOf,
  fragmentMemoryOf,
  isClockSet,
  linkDownIgnoredOf,
  loadableModules,
  systemdVersion,
  availableMibIn,
} from '../../host/figures/host-features.ts'
import { forwardDrops } from '../../host/nftables/forward-drops.ts'
import { checkFirewall } from '../../host/nftables/nft-firewall.ts'
import { memoryFigures } from '../../host/figures/linux-figures.ts'
import { PoolSight, probePool } from '../../host/pool/pool-marker.ts'
import { poolPaths } from '../../host/pool/pool-paths.ts'
import { checkKeyPair } from '../../host/ssh/key-pair.ts'
import { checkDescriptorStore } from '../../host/systemd/descriptor-store.ts'
import { findUnit } from '../../host/systemd/own-unit.ts'
import { SystemdBus } from '../../host/systemd/systemd-bus.ts'
import { errorChain } from '../../log/error-chain.ts'
import { silentLog } from '../../log/log.ts'
import { RecordsUnread, readRecordsFacts } from '../../store/database/records-facts.ts'
import { firewallPolicyOf } from '../policies.ts'
import { buildMonitors } from '../build-monitors.ts'
import { extraAuthorities } from '../extra-authorities.ts'
import { HostFault } from '../../core/errors.ts'
import type { FaultCode } from '../../core/errors.ts'
import { given } from '../../lib/given.ts'
import { belongTogether, unrecordedDisks } from './unrecorded-disks.ts'
import { fact } from './fact.ts'
import { readDaemonFact } from './read-daemon-fact.ts'
import { readableKeys } from './readable-keys.ts'
import { readNodeFact, readTlsFacts } from './read-tls-facts.ts'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { listenAt } from '../../api/listener/listen-at.ts'
import { bareAddress } from '../../config/config.ts'
import type { Config } from '../../config/config.ts'
import type {
  Fact,
  HostFacts,
  PoolFault,
  PoolLook,
  RecordsLook,
  StoreFact,
} from '../../core/doctor/host-facts.ts'

const UNIT = 'vmhostd.service'

type Question = { readonly configPath: string; readonly config: Config; readonly configuration: Fact<'used'> }

/** Reads all facts about this host. A fact that cannot be read has its reason; this throws nothing that is expected. */
export async function readFacts({ configPath, config, configuration }: Question): Promise<HostFacts> {
  const { monitors, offers, kvm } = await buildMonitors(config, silentLog)
  const version = (kind: 'qemu' | 'firecracker') =>
    fact(async () => (await monitors[kind].installed()).version)
  const { stateDirectory, capacity } = config
  const pool = await lookAtPool(config.storage.poolDirectory)
  const records = recordsIn(stateDirectory)
  return {
    nowMs: Date.now(),
    configPath,
    configuration,
    hasConfigFile: existsSync(configPath),
    ...given({
      localImages: await localImages(config.storage.localImagesDirectory),
      qemuProgram: config.monitor.program,
    }),
    kernel: release(),
    systemd: await fact(systemdVersion),
    modules: await fact(loadableModules),
    forwarding: forwardingOf(),
    advertisedRoutes: advertisedRoutes(),
    linkDownIgnored: linkDownIgnoredOf(),
    shared: {
      connections: {
        ...given({ max: connectionsMaxOf() }),
        perGuest: firewallPolicyOf(config).connectionsMax,
      },
      fragments: fragmentMemoryOf(),
    },
    firewall: await fact(async () => {
      await checkFirewall(firewallPolicyOf(config))
      return 'taken' as const
    }),
    forwardDrops: await fact(forwardDrops),
    controllers: await fact(controllersIn),
    monitors: offers(),
    kvm,
    monitorVersions: { qemu: await version('qemu'), firecracker: await version('firecracker') },
    pool,
    room: await readRoom(config),
    memory: await fact(() => ({ totalMib: memoryFigures().totalMib, reserveMib: capacity.memoryReserveMib })),
    diskReserveMib: capacity.diskReserveMib,
    records,
    ...(belongTogether(pool, records)
      ? { unrecorded: await fact(() => unrecordedDisks(pool.value, stateDirectory)) }
      : {}),
    sshKey: await fact(() => (checkKeyPair(stateDirectory) === undefined ? 'absent' : 'fits')),
    readableKeys: await fact(() => readableKeys(config)),
    listeners: await readListeners(config),
    ...(await readTlsFacts(config)),
    // Without a configuration it is not known what the node is called.
    ...(configuration.known ? await readNodeFact(config) : {}),
    ...(config.objectStore.extraCaFile === undefined
      ? {}
      : { extraAuthorities: await fact(() => extraAuthorities(config)?.length ?? 0) }),
    clockIsSet: await fact(isClockSet),
    ...(await readUnit(stateDirectory)),
  }
}

/** Returns the directory if it can be listed, or why not; undefined if none is configured. */
async function localImages(directory: string | undefined): Promise<Fact<string> | undefined> {
  if (directory === undefined) return undefined
  return fact(async () => {
    await readdir(directory)
    return directory
  })
}

function recordsIn(stateDirectory: string): RecordsLook {
  try {
    return { known: true, value: readRecordsFacts(stateDirectory) }
  } catch (error) {
    const fault = error instanceof RecordsUnread ? error.fault : undefined
    return { known: false, because: errorChain(error), ...given({ fault }) }
  }
}

const POOL_FAULTS: Readonly<Partial<Record<FaultCode, PoolFault>>> = {
  storage_full: 'full',
  storage_read_only: 'read-only',
}

/** Reads facts about the pool of a directory. A failure names the directory, which a fault of the pool does not. */
export async function lookAtPool(directory: string): Promise<PoolLook> {
  try {
    const marked = await probePool(directory)
    if (marked === undefined)
      return {
        known: false,
        directory,
        because: `${poolPaths(directory).marker} is not there`,
        fault: 'unmarked',
      }
    const { poolId, reflink } = marked
    const { availableMib } = await new PoolSight(poolPaths(directory), poolId).figures()
    return { known: true, value: { directory, poolId, reflink, availableMib } }
  } catch (error) {
    const fault = error instanceof HostFault ? POOL_FAULTS[error.code] : undefined
    return { known: false, directory, because: `${directory}: ${errorChain(error)}`, ...given({ fault }) }
  }
}

/** Checks the unit of the daemon as the daemon itself does at its start, and whether the daemon runs. */
async function readUnit(stateDirectory: string): Promise<Pick<HostFacts, 'descriptorStore' | 'daemon'>> {
  const bus = new SystemdBus({ log: silentLog })
  try {
    const unit = await fact(() => findUnit(bus, UNIT))
    if (!unit.known) return { descriptorStore: unit }
    const { value } = unit
    if (value === undefined) return { descriptorStore: { known: true, value: NOT_INSTALLED } }
    return {
      descriptorStore: await fact(() => checkDescriptorStore(value)),
      daemon: await fact(() => readDaemonFact(value, stateDirectory)),
    }
  } finally {
    bus.close()
  }
}

const NOT_INSTALLED: StoreFact = {
  available: false,
  because: `systemd does not know ${UNIT}`,
  remedy: 'install the package vmhostd',
}

/** Reads how much room the directories of this host have. */
export async function readRoom({
  stateDirectory,
  runDirectory,
}: Pick<Config, 'stateDirectory' | 'runDirectory'>): Promise<HostFacts['room']> {
  // A boot empties the file system of this directory, and the start of the daemon makes it there again.
  const ofRun = existsSync(runDirectory) ? runDirectory : dirname(runDirectory)
  return [
    {
      what: 'state',
      directory: stateDirectory,
      availableMib: await fact(() => availableMibIn(stateDirectory)),
    },
    { what: 'run', directory: runDirectory, availableMib: await fact(() => availableMibIn(ofRun)) },
  ]
}

/** Reads whether each listener of the configuration can be bound on this host. A daemon that runs may have its port. */
export function readListeners({
  controller,
  coordination,
  metrics,
}: Pick<Config, 'controller' | 'coordination' | 'metrics'>): Promise<HostFacts['listeners']> {
  const listeners = [
    { listener: 'controller', table: 'controller', address: controller.listenAddress },
    ...(coordination.enabled
      ? [{ listener: 'nodes', table: 'coordination', address: coordination.listenAddress }]
      : []),
    ...(metrics.enabled ? [{ listener: 'metrics', table: 'metrics', address: metrics.listenAddress }] : []),
  ]
  return Promise.all(
    listeners.map(async (one) => ({ ...one, boundAt: await fact(() => bindAt(bareAddress(one.address))) })),
  )
}

/** Binds an address for a moment, at a port that the kernel chooses. Returns the address that it is then. */
async function bindAt(address: string): Promise<string> {
  const server = createServer((socket) => socket.destroy())
  const found = await listenAt(server, address, 0)
  server.close()
  await once(server, 'close')
  return found
}
