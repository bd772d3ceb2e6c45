import type { Entries } from './entry.ts'

/** Problems of VMs that move to another host. */
export const migrations = {
  rejections: {
    vm_migrating: {
      status: 409,
      title: 'The VM is moving to another host',
      meaning:
        'A node was offered the VM as it is. Only a stop, a deletion and a withdrawal of the offer are accepted until the migration has ended.',
      remedy: 'Wait until the migration has ended, or withdraw the offer with `DELETE …/migration`.',
      example:
        'web-1 is offered to node-2 by migration move-7, which is not decided yet: wait for its end, or withdraw it with DELETE /v1/vms/web-1/migration',
      writtenBy: ['src/core/vm/leaving.ts'],
      advice: [
        'vmhostctl vm get {name} shows how far it is',
        'vmhostctl vm migrate {name} --cancel keeps it here',
      ],
    },
    vm_migrated: {
      status: 409,
      title: 'The VM has moved to another host',
      meaning: 'The VM was released to another node, and this host will never run it again.',
      remedy:
        'Change the VM, and open its console, on the host that has it. Delete it here when you no longer need its record.',
      example: 'web-1 was released to node-2 by migration move-7: change it there, and delete it here',
      writtenBy: ['src/core/vm/leaving.ts'],
      advice: { vm: ['--profile FILE names the profile of its new host, which has {name}'] },
    },
    migration_ended: {
      status: 409,
      title: 'The migration with this id has ended',
      meaning: 'A migration id stands for one try, and this one was withdrawn or has expired.',
      remedy: 'Offer the VM under a new migration id.',
      example: 'migration move-7 of web-1 has ended (withdrawn): offer web-1 under a new migration id',
      writtenBy: ['src/commands/migration/offer-vm.ts', 'src/core/migration/departure.ts'],
    },
    migration_incompatible: {
      status: 409,
      title: 'This host could not restore the memory of the guest',
      meaning:
        'The guest runs or sleeps at its source, and its memory can be read only by a like monitor on a like processor.',
      remedy:
        'Move the VM with `mode` `cold`, or stop it first: then its disk moves, and it boots here. Or give both hosts the same monitor.',
      example:
        'the memory of web-1 could not be restored here: its processor is of vendor GenuineIntel, and here is AuthenticAMD',
      writtenBy: ['src/owners/migration/read-offer.ts', 'src/core/saved/judge-saved-state.ts'],
      quotes: ['GenuineIntel', 'AuthenticAMD'],
      advice: ['vmhostctl vm migrate {name} --cold moves it without its memory'],
    },
    migration_unavailable: {
      status: 409,
      title: 'The source does not offer this VM now',
      meaning:
        'The source does not know the migration, offers the VM to another node, or the migration is past the point at which a host can begin to take it.',
      remedy: 'Offer the VM at its source to the common name of the node certificate of this host.',
      example: 'migration move-7 is withdrawn at its source: offer the VM there under a new migration id',
      writtenBy: ['src/owners/migration/read-offer.ts'],
    },
    vm_arriving: {
      status: 409,
      title: 'The VM is coming from another host',
      meaning:
        'Until its source has released the VM, only that host can change it. A VM whose source kept it can only be deleted here.',
      remedy:
        'Wait until the VM is here (`observed.arrival.stage` is `released`), or withdraw the offer at its source. Delete a VM that does not come (`refused`). Only if that host is lost for good and the VM is `pulled`, delete it with `source_lost=true`.',
      example:
        'web-1 is coming by migration move-7: wait until it is here, or withdraw the offer at its source',
      writtenBy: ['src/core/vm/leaving.ts'],
      advice: [
        'vmhostctl vm get {name} shows how far it is, and from where it comes',
        'if it shows that {name} does not come: vmhostctl vm rm {name}',
      ],
    },
    source_not_lost: {
      status: 409,
      title: 'The source of the VM is not lost',
      meaning:
        'The deletion says that the source of the VM is lost. But the VM does not wait for it, or the source has answered so far.',
      remedy: 'Read the VM again. Delete it without `source_lost` if it must go whatever its source does.',
      example:
        'web-1 was not deleted: it does not wait for a release by its source; read it again, and decide again',
      writtenBy: ['src/core/vm/leaving.ts'],
      advice: ['vmhostctl vm get {name} shows what the VM waits for'],
    },
    snapshot_under_way: {
      status: 409,
      title: 'A snapshot of the VM is not uploaded yet',
      meaning:
        'The staging of a snapshot stays at this host, so the VM cannot leave before the upload has ended. A rebuild waits only until the snapshot has captured the disk.',
      remedy: 'Wait until the snapshot is completed or has captured the disk, or delete it.',
      example: 'snapshot nightly-7 of web-1 is not uploaded yet: wait for its end, or delete it',
      writtenBy: ['src/commands/migration/offer-vm.ts'],
      advice: ['vmhostctl snapshot ls --vm {name} shows its snapshots'],
    },
    vm_busy: {
      status: 409,
      retryAfterSeconds: 5,
      title: 'The VM has something to finish before it can be offered',
      meaning:
        'A stop with grace or a reboot is not carried out yet, the disk is being rebuilt, or another kernel or initrd is on its way. The VM can be offered when that is done.',
      remedy:
        'Wait until the generations of the VM are equal, then send the same request again. If that takes long, `observed.error` says why.',
      example: 'the disk of web-1 is being rebuilt: wait until that is done',
      writtenBy: ['src/commands/migration/offer-vm.ts'],
      advice: ['vmhostctl vm get {name} shows what it is doing; then run the command again'],
    },
    offers_full: {
      status: 409,
      title: 'Too many VMs are offered to other hosts',
      meaning: 'The host keeps a bounded number of offers that are not decided.',
      remedy: 'Wait until some migrations have ended, or withdraw their offers.',
      example: 'this host has 100 offers that are not decided: wait until some have ended, or withdraw them',
      writtenBy: ['src/commands/migration/offer-vm.ts'],
      quotes: ['100'],
    },
    migration_withdrawn: {
      status: 409,
      title: 'The migration was withdrawn',
      meaning:
        'A request, a deadline or the destination itself has withdrawn the offer. The guest stays at the source.',
      remedy: 'Remove what was copied. The controller may offer the VM again, under a new migration id.',
      example: 'migration move-7 was withdrawn: the VM stays on this host',
      writtenBy: ['src/api/coordination/refusals.ts'],
    },
    migration_released: {
      status: 409,
      title: 'The VM of the migration was released',
      meaning: 'The VM was released to a destination, and will never run at its source again.',
      remedy: 'The destination that copied the VM asks for the release again. No other one can have it.',
      example: 'the VM of migration move-7 was released, so nothing of it is left to copy or to abort',
      writtenBy: ['src/api/coordination/refusals.ts'],
    },
    migration_not_yours: {
      status: 409,
      title: 'Another attempt takes the VM',
      meaning:
        'Another attempt of the node copies the VM, or none has begun. Each attempt has an arrival id of its own.',
      remedy: 'Give this attempt up, and remove what it has copied.',
      example: 'another attempt takes the VM of migration move-7, or none has begun to copy it',
      writtenBy: ['src/api/coordination/refusals.ts'],
    },
    migration_too_early: {
      status: 409,
      title: 'The guest is not handed over yet',
      meaning:
        'The request needs a guest that is down for the handover, and the guest runs or is being saved.',
      remedy: 'Ask for the handover until its stage is `handed_over`.',
      example: 'the guest of migration move-7 is not handed over yet: ask for the handover',
      writtenBy: ['src/api/coordination/refusals.ts'],
    },
    migration_outdated: {
      status: 409,
      title: 'The destination does not have the last round',
      meaning: 'The request names another round than the one of the disk of the saved guest.',
      remedy: 'Copy the round that the handover names, and use it in the request.',
      example: 'the request does not name the last round of migration move-7',
      writtenBy: ['src/api/coordination/refusals.ts'],
    },
    migrations_busy: {
      status: 503,
      retryAfterSeconds: 5,
      title: 'The host copies as much as it may',
      meaning:
        'A host copies a bounded number of VMs at the same time, and a destination reads a bounded number of streams of each.',
      remedy: 'Ask again after `Retry-After` seconds. The destination asks again by itself.',
      example: 'this host copies 2 other VMs now: ask again in a while',
      writtenBy: ['src/api/coordination/refusals.ts'],
      quotes: ['2'],
    },
  },
  faults: {
    migration_refused: {
      retry: 'on-change',
      title: 'The VM does not come',
      meaning:
        'The migration has ended at the source without a release: it was withdrawn, it has expired, or this host could not take the VM or was drained. The guest continues there, unless the VM was deleted there.',
      remedy: 'Delete the VM here. To try again, offer it at its source under a new migration id.',
      example:
        'web-1 does not come here: migration move-7 has ended at its source (withdrawn); delete web-1 here',
      writtenBy: ['src/core/plan/plan-arrive.ts', 'src/core/migration/departure.ts'],
    },
    migration_not_converging: {
      retry: 'on-change',
      title: 'The guest writes faster than its disk can be copied',
      meaning:
        'Each round of the copy is as large as the one before, and the last would keep the guest down for too long. The guest continues at its source.',
      remedy:
        'Move the VM while it writes less, limit its disk (`mib_per_second_max`), or move it with `mode` `cold`.',
      example: 'the guest writes faster than its disk is copied: after 8 rounds, 9000 MiB are left',
      writtenBy: ['src/owners/migration/pull-disk.ts'],
      quotes: ['8', '9000'],
    },
    source_busy: {
      retry: 'backoff',
      title: 'The source copies other VMs now',
      meaning: 'A host copies a bounded number of VMs at a time. This host asks again.',
      remedy: 'Wait.',
      example: 'asking the source to copy',
      writtenBy: ['src/owners/migration/source-refused.ts', 'src/core/migration/arrival.ts'],
    },
    migration_unsupported: {
      retry: 'backoff',
      title: 'The storage pool cannot share blocks, so no disk leaves this host',
      meaning:
        'The file system of the storage pool cannot share blocks, and a copy would keep the guest down for its whole length.',
      remedy: 'Put the pool on XFS or btrfs.',
      example: 'taking round 1 of the disk of VM web-1',
      writtenBy: ['src/host/rounds/pool-rounds.ts'],
    },
    source_unreachable: {
      retry: 'backoff',
      title: 'The host that offers the VM does not answer',
      meaning:
        'The coordination API of the source (port 9001) could not be reached, or the connection broke off. This host asks again.',
      remedy:
        'The cause says what failed. Check that the daemon of the source runs and listens on `coordination.port`, that the URL has its address, and that no firewall is between the two hosts. If it closes the connection each time, check that the node certificate of this host, the destination, is valid and not revoked: `vmhostctl sync` here shows the certificate that ends first.',
      example: 'asking the source https://10.0.0.1:9001',
      writtenBy: ['src/host/source/source-requests.ts'],
      quotes: ['https://10.0.0.1:9001'],
    },
    source_refused: {
      retry: 'backoff',
      title: 'Two hosts do not trust each other, or do not understand each other',
      meaning:
        'One host does not accept the certificate of the other, the URL leads to another API or to an address that this host may not connect to, or the answer was damaged or is not known to this version. This host asks again.',
      remedy:
        'The cause says which. The node certificate of the source must have the host of the URL among its names, and `coordination.ca_file` of each host must name the authority of the other. If the certificate is revoked, no VM comes from that host until it has another one. Both hosts need versions that know each other.',
      example: 'asking the source https://10.0.0.1:9001',
      writtenBy: ['src/host/source/source-requests.ts'],
      quotes: ['https://10.0.0.1:9001'],
    },
    round_lost: {
      retry: 'on-change',
      title: 'A round of a disk that moves is gone',
      meaning:
        'A round of the disk of a VM that moves is gone from the pool, or not as it was made; or a write to it has no known end. The copy cannot continue.',
      remedy: 'Offer the VM again. The disk is then copied from its beginning.',
      example: 'taking round 3 of the disk of VM web-1: the round before it is not there',
      writtenBy: ['src/host/rounds/pool-rounds.ts', 'src/host/rounds/lost-round.ts'],
    },
  },
} as const satisfies Entries
