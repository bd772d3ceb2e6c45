import { limits } from '../../config/limits.ts'
import type { Finding } from './finding.ts'
import type { DaemonFact, HostFacts, PoolFault, RecordsFault } from './host-facts.ts'

/** Judges the storage pool: whether it is there, shares blocks, and has room beyond its reserve. */
export function judgePool({ pool, records, diskReserveMib }: HostFacts): Finding {
  const check = 'pool'
  if (!pool.known)
    return { check, level: 'must', found: pool.because, remedy: remedyForPool(pool.fault, pool.directory) }
  const { directory, poolId, reflink, availableMib } = pool.value
  const recorded = records.known ? records.value?.poolId : undefined
  if (recorded !== undefined && recorded !== poolId)
    return {
      check,
      level: 'must',
      found: `${directory} is pool ${poolId}, and the records are of pool ${recorded}`,
      remedy:
        'mount the pool of this host there, or put back the records that belong to this pool; if the pool of the records is lost: vmhostd setup --replace-pool',
    }
  if (availableMib <= diskReserveMib) {
    const found = `${directory} has ${availableMib} MiB, and the reserve is ${diskReserveMib} MiB`
    return { check, level: 'must', found, remedy: 'make room, or lower capacity.disk_reserve_mib' }
  }
  if (reflink)
    return { check, level: 'ok', found: `${directory} shares blocks, ${availableMib} MiB available` }
  return {
    check,
    level: 'should',
    found: `${directory} does not share blocks between files: each disk is a full copy, and snapshots are refused`,
    remedy: 'put the pool on XFS (mkfs.xfs -m reflink=1) or btrfs before VMs are created',
  }
}

/** Returns what to do about a pool that cannot be read. Only one without a marker may be lost. */
function remedyForPool(fault: PoolFault | undefined, directory: string): string {
  if (fault === undefined)
    return `check whether the disk of ${directory} works and is mounted (journalctl -k)`
  const remedies: Readonly<Record<PoolFault, string>> = {
    full: `make room in ${directory}`,
    'read-only': `mount the file system of ${directory} read-write; journalctl -k shows whether the kernel stopped the writes`,
    unmarked: `mount the file system of the pool at ${directory}; vmhostd setup makes the first one, and --replace-pool one for a pool that is lost`,
  }
  return remedies[fault]
}

/** Judges whether this build can use the records of VMs. */
export function judgeRecords({ records, daemon }: HostFacts): Finding {
  const check = 'records'
  const displaced = daemon?.known === true ? daemon.value.displaced : undefined
  if (displaced !== undefined) return judgeDisplaced(displaced)
  if (!records.known)
    return { check, level: 'must', found: records.because, remedy: remedyForRecords(records.fault) }
  if (records.value === undefined) return { check, level: 'ok', found: 'none yet' }
  const { schemaVersion, schemaVersionMax, copy } = records.value
  if (schemaVersion <= schemaVersionMax)
    return { check, level: 'ok', found: `schema version ${schemaVersion}` }
  return {
    check,
    level: 'must',
    found: `schema version ${schemaVersion}, and this build knows up to ${schemaVersionMax}`,
    remedy: `install the newer vmhostd again, or ${copy === undefined ? 'put back a backup from before the upgrade' : `stop the daemon and run vmhostd restore ${copy}, which lacks what was changed since`} ("Go back to the previous version" in recovery.md)`,
  }
}

function judgeDisplaced({ name, copy }: NonNullable<DaemonFact['displaced']>): Finding {
  const put = copy === undefined ? 'put a backup back' : `put back ${copy}, which the daemon made`
  return {
    check: 'records',
    level: 'must',
    found: `${name} was removed or replaced under the running daemon, which stores no change`,
    remedy: `do not restart the daemon: put the same file there again if it was moved, or stop the daemon and ${put} ("Records that were removed under the daemon" in recovery.md)`,
  }
}

/** So many VMs are named in a finding. */
const NAMED_MAX = 5

/**
 * Judges whether the disks of the pool have records. It is never a `must`: a disk may be of another state directory, or
 * a person put it there, and all VMs on record work without it.
 */
export function judgeDisks({ unrecorded }: HostFacts): readonly Finding[] {
  if (unrecorded === undefined) return []
  const check = 'disks'
  if (!unrecorded.known) {
    const remedy = 'check whether the disk of the pool works (journalctl -k)'
    return [{ check, level: 'should', found: unrecorded.because, remedy }]
  }
  const { ids, isMore } = unrecorded.value
  if (ids.length === 0) {
    const found = isMore
      ? 'no disk without a record was found in a part of the pool'
      : 'each disk of a VM has a record'
    return [{ check, level: 'ok', found }]
  }
  const others = isMore || ids.length > NAMED_MAX ? ', and others' : ''
  return [
    {
      check,
      level: 'should',
      found: `in the pool without a record: ${ids.slice(0, NAMED_MAX).join(', ')}${others}`,
      remedy:
        'if their records are lost, put a backup back (vmhostd restore) or give each VM its record again (vmhostd recover); recovery.md says how',
    },
  ]
}

const RECORDS_REMEDY: Readonly<Record<RecordsFault, string>> = {
  damaged:
    'put back a backup ("Put a backup back" in recovery.md), or without one recover the VMs from the pool ("Take a host back after the loss of its records" there)',
  locked:
    'a daemon that started on a full disk has locked them: make room for the records and restart it, or stop it while you run this',
  forbidden: 'run this as root',
}

/**
 * Returns what to do about records that cannot be read. Only damaged ones are worth a backup,
 * which lacks what came later.
 */
export const remedyForRecords = (fault: RecordsFault | undefined): string =>
  fault === undefined ? 'check whether the disk of the records works (journalctl -k)' : RECORDS_REMEDY[fault]

const ROOM_MIB_MIN = { state: limits.stateRoomMibMin, run: limits.runRoomMibMin }
const WHY = { state: 'the records of VMs', run: 'the histories of consoles' }

/** Judges the room of directories, and the memory for guests. */
export function judgeRoom({ room, memory }: HostFacts): readonly Finding[] {
  const directories = room.map(({ what, directory, availableMib }): Finding => {
    const check = `room ${what}`
    const min = ROOM_MIB_MIN[what]
    const remedy = `make room in ${directory}: it has ${WHY[what]}`
    if (!availableMib.known)
      return { check, level: 'must', found: availableMib.because, remedy: 'run vmhostd setup' }
    const found = `${directory} has ${availableMib.value} MiB`
    return availableMib.value >= min ? { check, level: 'ok', found } : { check, level: 'must', found, remedy }
  })
  return [...directories, judgeMemory(memory)]
}

function judgeMemory(memory: HostFacts['memory']): Finding {
  const check = 'memory'
  if (!memory.known)
    return { check, level: 'must', found: memory.because, remedy: 'check whether /proc is mounted' }
  const { totalMib, reserveMib } = memory.value
  const found = `${totalMib} MiB, of which ${reserveMib} MiB are reserved for the host`
  return totalMib > reserveMib
    ? { check, level: 'ok', found }
    : { check, level: 'must', found, remedy: 'lower capacity.memory_reserve_mib, or add memory' }
}
