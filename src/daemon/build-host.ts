import { readFileSync } from 'node:fs'
import { guestRuleOf } from '../core/network/tap.ts'
import { given } from '../lib/given.ts'
import { withOwnMark } from '../host/ebpf/ignored-traffic.ts'
import { TcpProbes } from '../host/probes/tcp-probes.ts'
import type { IgnoredTraffic } from '../host/ebpf/ignored-traffic.ts'
import { TapTraffic } from '../host/ebpf/tap-traffic.ts'
import { TrafficProgram } from '../host/ebpf/traffic-program.ts'
import { LinuxFigures } from '../host/figures/linux-figures.ts'
import { NftFirewall } from '../host/nftables/nft-firewall.ts'
import { BandwidthLimit } from '../host/object-store/transfer-limits.ts'
import { HttpObjectStore } from '../host/object-store/http-object-store.ts'
import { Outbound } from '../host/outbound/outbound-request.ts'
import { HttpSourceHosts } from '../host/source/http-source-hosts.ts'
import { Pool } from '../host/storage/pool.ts'
import { ConsoleMasters } from '../host/pty/console-masters.ts'
import { ensureKeyPair } from '../host/ssh/key-pair.ts'
import { SshShells } from '../host/ssh/ssh-shells.ts'
import { systemClock } from '../host/system-clock.ts'
import { SystemdDescriptorStore } from '../host/systemd/descriptor-store.ts'
import { SystemdBus } from '../host/systemd/systemd-bus.ts'
import { ensureRuntimeRoom } from '../host/systemd/runtime-directories.ts'
import { SystemdUnits } from '../host/systemd/systemd-units.ts'
import { RoutedTaps } from '../host/tap/routed-taps.ts'
import { silentLog } from '../log/log.ts'
import { tapSpecOf } from '../reconcile/intent.ts'
import { extraAuthorities } from './extra-authorities.ts'
import { imageThreadSource, packThreadSource, readAsset } from './assets.ts'
import { buildMonitors } from './build-monitors.ts'
import { revokedNodes } from './revoked-nodes.ts'
import { firewallPolicyOf, outboundPolicyOf } from './policies.ts'
import type { VmId } from '../core/ids.ts'
import type { MonitorKind } from '../core/monitor/monitor-kind.ts'
import type { GuestRule } from '../core/world/network-state.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import type { Host } from '../ports/host.ts'
import type { Store } from '../store/store.ts'

/** The wired drivers of this host, with the parts that only the start and the end of the daemon need. */
export type BuiltHost = {
  readonly host: Host
  readonly figures: LinuxFigures
  readonly bus: SystemdBus
  readonly consoles: ConsoleMasters
  readonly firewall: NftFirewall
  readonly descriptorStore: SystemdDescriptorStore
  readonly traffic: TapTraffic
  readonly outbound: Outbound
  readonly sourceHosts: HttpSourceHosts
  readonly shells: SshShells
  readonly probes: TcpProbes
}

/** Makes the drivers. Reads from the host only what it needs to know the host. */
export async function buildHost(config: Config, store: Store, poolId: string, log: Log): Promise<BuiltHost> {
  ensureRuntimeRoom(`${config.runDirectory}/vm`, log)
  const bus = new SystemdBus({ log })
  const descriptorStore = new SystemdDescriptorStore({ bus })
  const consoles = new ConsoleMasters({
    store: descriptorStore,
    runDirectory: config.runDirectory,
    log,
  })
  const { monitors, ...installed } = await buildMonitors(config, log)
  // Make the keys here too, because an older set-up did not.
  const keyPair = ensureKeyPair(config.stateDirectory, config.host.id)
  const outbound = buildOutbound(config, store)
  const sourceHosts = buildSourceHosts(config, store, log)
  const pool = buildPool(config, { poolId, outbound, log })
  const ignored = withOwnMark(config.sleep)
  const traffic = buildTraffic(config, ignored, log)
  const firewall = buildFirewall(config, store, log)
  const host: Host = {
    units: new SystemdUnits({ bus, log, runDirectory: config.runDirectory }),
    consoles,
    monitors,
    storage: pool,
    savedStates: pool.savedStates,
    rounds: pool.rounds,
    incomingDisks: pool.incomingDisks,
    sourceHosts,
    staging: pool.staging,
    objectStore: buildObjectStore(config, outbound),
    taps: new RoutedTaps({ storeId: store.storeId }),
    firewall,
    traffic,
    clock: systemClock,
    storeId: store.storeId,
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    sshPublicKey: keyPair.publicKey,
  }
  const { poolDirectory } = config.storage
  const version = async (kind: MonitorKind) => (await monitors[kind].installed()).version
  const figures = new LinuxFigures({ poolDirectory, poolId, monitors: { ...installed, version } })
  const shells = new SshShells(keyPair)
  const probes = new TcpProbes({ mark: ignored.ignoreMark })
  const others = { firewall, descriptorStore, traffic, outbound, sourceHosts, shells, probes }
  return { host, figures, bus, consoles, ...others }
}

type PoolNeeds = { readonly poolId: string; readonly outbound: Outbound; readonly log: Log }

function buildPool({ capacity, storage, snapshots }: Config, { poolId, outbound, log }: PoolNeeds): Pool {
  return new Pool({
    directory: storage.poolDirectory,
    reserveMib: capacity.diskReserveMib,
    poolId,
    outbound,
    ...(storage.localImagesDirectory === undefined
      ? {}
      : { localImagesDirectory: storage.localImagesDirectory }),
    imageThread: imageThreadSource,
    packing: { level: snapshots.compressionLevel, threadSource: packThreadSource },
    log,
  })
}

/**
 * Builds the traffic driver. It is pinned below the daemon's runtime directory: it counts and holds while the daemon is
 * down, and ends with the boot.
 */
function buildTraffic({ runDirectory }: Config, ignored: IgnoredTraffic, log: Log): TapTraffic {
  const program = new TrafficProgram({
    object: () => readAsset('traffic.bpf.o'),
    directory: `${runDirectory}/bpf`,
    ignored,
  })
  return new TapTraffic({ program, log })
}

function buildFirewall(config: Config, store: Store, log: Log): NftFirewall {
  return new NftFirewall({
    policy: firewallPolicyOf(config),
    recordFile: `${config.runDirectory}/firewall.json`,
    guests: store.vms.ids().flatMap((id) => guestRuleFor(store, id, log) ?? []),
  })
}

/**
 * Returns the firewall's rule for a guest; undefined if it has no network. A VM whose record cannot be read has no
 * rule, so nothing passes to its guest or from it. The other VMs go on.
 */
function guestRuleFor(store: Store, id: VmId, log: Log): GuestRule | undefined {
  try {
    const wanted = store.addresses.wantedBy(id)
    const tap = wanted && tapSpecOf(wanted)
    return tap && guestRuleOf(tap)
  } catch (error) {
    log.error({ vm_id: id, error }, 'VM record not readable: its guest has no network')
    return undefined
  }
}

/** Builds the only outbound path: image downloads and snapshot uploads use it. */
function buildOutbound(config: Config, store: Store): Outbound {
  return new Outbound({
    policy: outboundPolicyOf(config),
    isGuest: (address) => store.addresses.holder(address) !== undefined,
    ...given({ extraCa: extraAuthorities(config) }),
  })
}

/** Builds the way to other hosts. Their addresses may be of any kind but those of guests and of this host. */
function buildSourceHosts({ coordination, network }: Config, store: Store, log: Log): HttpSourceHosts {
  const { enabled, revocationFile } = coordination
  return new HttpSourceHosts({
    files: coordination,
    policy: {
      allowHttp: false,
      allowedHosts: [],
      allowedNetworks: [],
      guestRanges: network.guestRanges,
    },
    isGuest: (address) => store.addresses.holder(address) !== undefined,
    // A listener says in the log what it finds in the same file.
    ...(revocationFile !== undefined && {
      readRevoked: revokedNodes(revocationFile, enabled ? silentLog : log),
    }),
  })
}

function buildObjectStore({ snapshots }: Config, outbound: Outbound): HttpObjectStore {
  const limit = new BandwidthLimit(snapshots.uploadMbitPerSecond, systemClock)
  return new HttpObjectStore({ outbound, limit, clock: systemClock })
}
