import { release } from 'node:os'
import { advertisedRoutes } from '../../host/figures/advertised-routes.ts'
import {
  connectionsMaxOf,
  controllersIn,
  forwardingOf,
  fragmentMemoryOf,
  isClockSet,
  linkDownIgnoredOf,
  loadableModules,
  systemdVersion,
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
import { RecordsUnread, readRecordsFacts } from '../../store/backup/records-facts.ts'
import { firewallPolicyOf } from '../policies.ts'
import { buildMonitors } from '../build-monitors.ts'
import { extraAuthorities } from '../extra-authorities.ts'
import { given } from '../../lib/given.ts'
import { fact } from './fact.ts'
import { readListeners } from './read-listeners.ts'
import { readNodeFact } from './read-node-fact.ts'
import { readRoom } from './read-room.ts'
import { readTlsFacts } from './read-tls-facts.ts'
import type { Config } from '../../config/config.ts'
import type { Fact, HostFacts, RecordsLook, StoreFact } from '../../core/doctor/host-facts.ts'

const UNIT = 'vmhostd.service'

type Question = { readonly configPath: string; readonly config: Config; readonly configuration: Fact<'used'> }

/** Reads all facts about this host. A fact that cannot be read has its reason; this throws nothing that is expected. */
export async function readFacts({ configPath, config, configuration }: Question): Promise<HostFacts> {
  const { monitors, offers, kvm } = await buildMonitors(config, silentLog)
  const version = (kind: 'qemu' | 'firecracker') =>
    fact(async () => (await monitors[kind].installed()).version)
  const { stateDirectory, capacity } = config
  return {
    nowMs: Date.now(),
    configPath,
    configuration,
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
    pool: await fact(() => poolOf(config.storage.poolDirectory)),
    room: await readRoom(config),
    memory: await fact(() => ({ totalMib: memoryFigures().totalMib, reserveMib: capacity.memoryReserveMib })),
    diskReserveMib: capacity.diskReserveMib,
    records: recordsIn(stateDirectory),
    sshKey: await fact(() => (checkKeyPair(stateDirectory) === undefined ? 'absent' : 'fits')),
    listeners: await readListeners(config),
    ...(await readTlsFacts(config)),
    // Without a configuration it is not known what the node is called.
    ...(configuration.known ? await readNodeFact(config) : {}),
    ...(config.objectStore.extraCaFile === undefined
      ? {}
      : { extraAuthorities: await fact(() => extraAuthorities(config)?.length ?? 0) }),
    clockIsSet: await fact(isClockSet),
    descriptorStore: await fact(descriptorStore),
  }
}

function recordsIn(stateDirectory: string): RecordsLook {
  try {
    return { known: true, value: readRecordsFacts(stateDirectory) }
  } catch (error) {
    const fault = error instanceof RecordsUnread ? error.fault : undefined
    return { known: false, because: errorChain(error), ...given({ fault }) }
  }
}

async function poolOf(directory: string) {
  const { poolId, reflink } = await probePool(directory)
  const { availableMib } = await new PoolSight(poolPaths(directory), poolId).figures()
  return { directory, poolId, reflink, availableMib }
}

/** Checks the unit of the daemon as the daemon itself does at its start. */
async function descriptorStore(): Promise<StoreFact> {
  const bus = new SystemdBus({ log: silentLog })
  try {
    const unit = await findUnit(bus, UNIT)
    if (unit === undefined)
      return {
        available: false,
        because: `systemd does not know ${UNIT}`,
        remedy: 'install the package vmhostd',
      }
    return await checkDescriptorStore(unit)
  } finally {
    bus.close()
  }
}
