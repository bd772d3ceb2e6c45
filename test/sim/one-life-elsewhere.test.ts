import { calm } from './chaos.ts'
import { testOneLife } from './one-life.ts'

/** One act of each kind in which Firecracker saves, restores or changes a guest: all acts would take too long. */
testOneLife(
  'a daemon that dies, with Firecracker,',
  [
    'create',
    'grow and limit the disk',
    'hand it over',
    'take it back',
    'fall asleep',
    'wake by a packet',
    'save it while the host shuts down',
    'start',
    'delete',
  ],
  { ...calm, monitor: 'firecracker' },
)

/** One act of each kind whose wish must be on the disk before it is carried out. */
testOneLife(
  'a host that loses its power',
  ['create', 'grow and limit the disk', 'fall asleep', 'save it while the host shuts down', 'stop', 'delete'],
  { ...calm, powerLoss: 1 },
)
