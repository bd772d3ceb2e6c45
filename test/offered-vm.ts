/** A VM that another host offers, as this host takes it. */
import { manifestOf } from '../src/core/vm/manifest.ts'
import type { VmId } from '../src/core/ids.ts'
import type { ArrivalId } from '../src/core/migration/departure.ts'
import type { MigrationId, MigrationMode, NodeName } from '../src/core/migration/offer.ts'
import type { Offered } from '../src/core/vm/manifest.ts'
import type { VmRecord } from '../src/core/vm/record.ts'
import type { TakeVm } from '../src/commands/migration/take-vm.ts'

/** Returns what takes a VM with the record that its source has. */
export function offered(id: VmId, record: VmRecord, mode: MigrationMode = 'cold'): TakeVm & Offered {
  const migrationId = 'move-7' as MigrationId
  const departure = {
    id: migrationId,
    node: 'node-2' as NodeName,
    mode,
    stage: 'offered',
    sinceMs: 1,
  } as const
  const needs = {
    monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'tcg', form: 'mapped' },
    processor: { vendor: 'emulated', features: [] },
    inputs: { request: '{}', sshAuthorizedKeys: [], sources: new Map() },
    daemonSshKey: 'ssh-ed25519 AAAA vmhostd@host-1',
  } as const
  return {
    migrationId,
    source: 'https://host-1.example:9001',
    manifest: { ...manifestOf(record, departure, needs), vmId: id },
    arrivalId: 'a' as ArrivalId,
  }
}
