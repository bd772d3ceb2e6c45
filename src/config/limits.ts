import { certificateLimits } from './certificate-limits.ts'
import { clientLimits } from './client-limits.ts'
import { consoleLimits } from './console-limits.ts'
import { eventLimits } from './event-limits.ts'
import { maintenanceLimits } from './maintenance-limits.ts'
import { monitorLimits } from './monitor-limits.ts'
import { networkLimits } from './network-limits.ts'
import { poolLimits } from './pool-limits.ts'
import { recordsLimits } from './records-limits.ts'
import { migrationLimits } from './migration-limits.ts'
import { snapshotLimits } from './snapshot-limits.ts'

/** Every bound of the system, with its unit: what this daemon refuses, or stops waiting for. */
export const limits = {
  /** Request bodies. */
  bodyBytesMax: 1024 * 1024,
  /** Request bodies of the coordination API, which have some 150 bytes. */
  coordinationBodyBytesMax: 4 * 1024,
  /** Bytes of a too large body that are discarded after the answer, for clients that write all before they read. */
  refusedBodyBytesMax: 32 * 1024 * 1024,
  refusedBodyMs: 10_000,
  /** `Retry-After` of an answer that met a fault, by the retry class of the fault. */
  retryAfterSoonSeconds: 1,
  retryAfterBackoffSeconds: 5,
  /** Answers of one listener that clients have not taken yet. The largest, the script of the reference, has MiBs. */
  heldAnswersBytesMax: 64 * 1024 * 1024,
  userDataBytesMax: 256 * 1024,
  sshKeysMax: 64,
  sshKeyBytesMax: 8 * 1024,
  urlBytesMax: 8 * 1024,
  /** Characters of the host in a URL: the longest name in DNS (RFC 1035, 2.3.4). */
  urlHostCharactersMax: 253,
  /** Characters of each message in the chain of a fault. */
  faultCharactersMax: 2000,
  /** Findings reported about one request; the schema's checker stops there by itself. */
  findingsShown: 8,
  /** Names in a pointer into a request body, which may be nested as deeply as it is long. */
  pointerNamesMax: 16,
  kernelArgumentsBytesMax: 1024,
  listItemsDefault: 100,
  listItemsMax: 1000,
  /** Answers to `GET /v1/vm-states` that are kept until something changes, each with some 130 bytes for each VM. */
  keptAnswersMax: 8,
  /** Characters of VMs that `GET /v1/vms` keeps as it sent them; a VM has some 1,000, which take as many bytes. */
  keptVmsCharactersMax: 32 * 1024 * 1024,

  cpuMillicoresMin: 100,
  /**
   * 32 vCPUs, which each monitor gives a guest: Firecracker has MAX_SUPPORTED_VCPUS of 32
   * (src/vmm/src/vmm_config/machine_config.rs), QEMU's `microvm` 288 and its `virt` 512.
   */
  cpuMillicoresMax: 32_000,
  memoryMibMin: 64,
  memoryMibMax: 1024 * 1024,
  diskMibMin: 1,
  diskMibMax: 16 * 1024 * 1024,
  diskIopsMin: 10,
  diskIopsMax: 10_000_000,
  diskMibPerSecondMin: 1,
  diskMibPerSecondMax: 100_000,
  bandwidthMbitPerSecondMin: 1,
  bandwidthMbitPerSecondMax: 100_000,
  firewallRulesMax: 64,
  rulePortsMax: 32,
  ruleNetworksMax: 256,
  /** More are not read by the C library of a guest (MAXNS, resolv.conf(5)). */
  nameServersMax: 3,
  /** The network of a site (RFC 6177), and the smallest that is more than one address. */
  guestPrefixBitsMin: 48,
  guestPrefixBitsMax: 127,
  labelsMax: 64,
  /** Revisions that a start of the daemon may skip. The 2^53 revisions never run out. */
  revisionsReserved: 100_000,
  /** "vmhostd doctor": the oldest versions that the daemon is made for, and room in MiB below which it says so. */
  kernelVersionMin: [6, 1],
  systemdVersionMin: 254,
  stateRoomMibMin: 256,
  runRoomMibMin: 64,
  /** From the end of a start until the memory that only the start needed is returned to the host. */
  startMemoryReturnMs: 1000,
  /**
   * How often memory that libraries have freed is returned to the host. It takes from one to some tens of milliseconds,
   * by how much there is. V8 frees buffers when it collects, and its compilers leave some MiB free.
   */
  freedMemoryReturnMs: 60_000,
  /** The longest long poll that Prefer: wait may ask for. */
  waitSecondsMax: 60,
  sleepAfterIdleSecondsMax: 365 * 24 * 3600,

  /**
   * VMs whose console masters systemd keeps. systemd hands over their names in one variable, of at most 128 KiB
   * (MAX_ARG_STRLEN, execve(2)). With more than 1,820 names of the longest ids, no daemon starts. Stores that are
   * running may exceed this by `passesMax`.
   */
  consolePlacesMax: 1750,
  /** The share of these places that VMs which never sleep may not hold, so that a VM that wakes finds a place. */
  sleepersPlacesShare: 0.1,
  /** Space that a saved state needs besides the guest's memory: the state of its devices and the index of its pages. */
  savedDevicesMib: 8,
  /** The smallest quota of staging, and the largest share of a pool that it may be. */
  stagingQuotaMibMin: 64,
  stagingPoolShareMax: 0.25,

  /** A VM that was woken stays awake at least this long, whatever its timeout. */
  awakeMsMin: 3000,
  /** The longest time for which a request keeps a guest awake. */
  keepAwakeMsMax: 7 * 86_400_000,
  /** A sleep that traffic ends sooner than this was not worth its save. */
  shortSleepMs: 10_000,
  /** Short sleeps in a row without effect; each further one doubles the idle timeout, up to the longest. */
  shortSleepsFree: 3,
  sleepBackoffMsMax: 600_000,
  /** When memory is short, a VM sleeps after this part of its idle timeout. */
  earlySleepShare: 0.25,
  /** Idle VMs that are asked at once whether they can sleep early. */
  earlySleepsMax: 8,
  /** A VM that waits for memory looks again after this long, in case the figures of the host changed. */
  memoryRecheckMs: 5000,
  /** After this long, a wait for memory is a fault, and continues. */
  memoryWaitMs: 300_000,
  /** Guests that are saved at the same time, because they share the disk. */
  savesMax: 4,
  /** Guests that are restored at the same time after a boot of the host. A packet for another one does not wait. */
  restoresMax: 4,
  /** A saved state younger than this is trusted; an older one is verified before a wake. */
  savedUncheckedMs: 10 * 60_000,
  /** An interrupted checksum continues from where it stopped if it began less than this long ago. */
  checksumProgressMs: 6 * 3_600_000,
  /** How long the space of a removed saved state waits to be freed; by then its guest is awake. */
  savedDiscardMs: 1000,
  /** The shortest time between two looks at a VM that will soon be idle for long enough. */
  sleepRecheckMs: 10,
  /** Maximum age of `last_traffic_at` while a VM runs. */
  lastTrafficStepMs: 60_000,
  /** Frames held for one guest that sleeps or wakes. */
  heldFramesMax: 256,
  heldBytesMax: 1024 * 1024,
  /** A frame that waited longer is useless to its sender: clients give up a connection after about this time. */
  heldFrameAgeMs: 60_000,
  /** Held frames of all guests that the daemon has in its memory, because the buffer below is needed for others. */
  copiedFramesBytesMax: 64 * 1024 * 1024,
  /** Buffer in which the kernel keeps held frames until the daemon takes them; a power of two. */
  trafficEventsBytes: 4 * 1024 * 1024,
  /** Delay before a program that the kernel would not load is tried again. */
  trafficLoadRetryMs: 5000,
  /** Sources and ports that may be configured as not counting. */
  ignoredSourcesMax: 1024,
  ignoredPortsMax: 64,

  /** systemd answers in less than a millisecond, but it does nothing else while it reloads all its units. */
  busCallMs: 10_000,
  busOpenMs: 5000,
  /** A lost connection to systemd is reopened after this long, and at once by any call. */
  busReconnectMs: 250,
  /** Until systemd has read a notification of ours; like `busCallMs`. */
  notifyBarrierMs: 10_000,

  /** Passes that look and act at the same time over all VMs. Those in a long step do not count. */
  passesMax: 32,
  /** Long steps of one kind, such as restores, at the same time. */
  longStepsMax: 32,
  /** Acting passes in a row, each followed by a new look, before a VM counts as not converging. */
  actingPassesMax: 16,
  /** A settled VM is looked at again after this long, jittered, in case a watcher missed something. */
  resyncMs: 60_000,
  /** Such looks over all VMs per second; with more VMs than that allows, each is looked at less often. */
  resyncsPerSecondMax: 1,
  /** Such looks come at multiples of this time, so that they share what they read of the host. */
  resyncsTogetherMs: 10_000,
  /** Records that a start reads in one turn of the event loop; some milliseconds. */
  recordsPerTurn: 64,
  /** A daemon that has worked for so long is restarted at once after its next crash, whatever came before. */
  restartsForgottenMs: 600_000,
  retrySoonMs: 1000,
  /** Attempts in a row that a busy host is asked soon. What lasts longer has growing delays. */
  retriesSoonMax: 10,
  retryBackoffMsMin: 1000,
  retryBackoffMsMax: 60_000,
  /** Fraction of a delay that is random. */
  retryJitter: 0.2,
  /** A VM that ran this long before it exited starts a new streak of exits. */
  stableAfterMs: 60_000,
  /** Reboots of a guest in a row, each soon after its start, that no back-off follows. */
  rebootsInRowFree: 3,
  /** How much of the end of a console is read for why its guest ended, and how much of that is shown. */
  exitConsoleBytes: 16_384,
  exitConsoleLines: 10,
  exitConsoleLineLength: 200,
  deleteAfterSecondsMax: 31_536_000,
  /** A daemon watches a stopped VM for so long before it deletes it by its age: the clock may be corrected. */
  deletionHoldMs: 600_000,
  monitorAnswerMs: 30_000,
  /** The next look at a silent monitor comes after this part of its silence, but not before the time that follows. */
  monitorRecheckShare: 0.05,
  monitorRecheckMs: 10,
  /** How long a resumed guest whose disk failed is observed. By then its request has failed again, or succeeded. */
  resumeProofMs: 1000,
  resumeRecheckMs: 20,
  unitRecheckMs: 100,
  /** Between two looks at processes that were sent SIGKILL; most are gone at the first look. */
  leftoverRecheckMs: 20,
  /** systemd starts and kills units in milliseconds; one that takes this long waits for a disk or a stuck process. */
  unitWaitMs: 30_000,

  /** Deadlines of steps. */
  stepMs: 30_000,
  /** Extra time for a step that was asked to stop at its deadline. */
  stepGraceMs: 5000,
  /** A VM may wait for a place before its image is fetched. The fetch then has its own bound, `imageFetchMs`. */
  imageStepMs: 24 * 3_600_000,
  imageFetchMs: 3_600_000,
  saveMs: 120_000,
  /** Added for each MiB of memory: the slowest supported disk takes about 10 MiB/s, of all saves together. */
  saveMsPerMib: 400,
  /** Firecracker cannot end a save that has begun. */
  firecrackerSaveMs: 6_600_000,
  restoreMs: 600_000,
  /** Added for each saved MiB: monitor and checksum read it at the same time from such a disk. */
  restoreMsPerMib: 200,
  diskCloneMs: 600_000,

  /** The control protocol of a monitor. Its longest answers are below 8 KiB; a longer line is not a monitor's. */
  qmpLineBytesMax: 64 * 1024,
  /** Lines that are read of one monitor: on average, and at once. Its own events come a few times a second. */
  qmpLinesPerSecond: 1000,
  qmpLinesBurst: 4000,
  /** Bytes of them, likewise: a MiB of nested arrays takes some 35 ms to parse. */
  qmpBytesPerSecond: 1024 * 1024,
  qmpBytesBurst: 1024 * 1024,
  /** Characters kept of one text from a monitor: its errors, states and events. */
  monitorTextCharactersMax: 300,
  /** Until the monitor's greeting. It accepts before its main loop runs, which takes long on a busy host. */
  qmpGreetingMs: 2000,
  /** One command. Pausing waits for running disk writes. */
  qmpCommandMs: 10_000,
  /** From a wake until the agent in a guest has taken the time. Some agents look only once or twice a second. */
  guestAgentMs: 10_000,
  /** The shortest and the longest time between two looks for an agent in a guest. */
  guestLookMsMin: 1000,
  guestLookMsMax: 30_000,
  /** Fraction by which such a time may be shorter, so that looks into many guests come together. */
  guestLooksTogether: 1 / 16,
  /** The longest time between two checks whether a guest is ready. */
  readinessLookMsMax: 10_000,
  /** For one such check, with its connection and its answer. */
  readinessProbeMs: 2000,
  /** Failed checks in a row, after which a guest that was ready is not. */
  readinessMissesMin: 3,
  readinessPathBytesMax: 1024,
  /** Looks in a row without an agent, after which there is none. */
  guestMissesMin: 2,
  /** From asking the agent in a guest to end the guest until an agent that does not know how would have answered. */
  guestShutDownMs: 2000,
  /** The longest grace of a stop, in seconds. */
  graceSecondsMax: 3600,
  /** A guest that boots, or whose agent starts, does not hear the first request. */
  askToEndAgainMs: 10_000,
  /** Bytes read from an agent for one question. Its answer is below 4 KiB; the rest are late answers. */
  guestAgentBytesMax: 64 * 1024,
  guestAgentLineBytesMax: 4 * 1024,
  /** Lines parsed for one question before the agent answers that question. */
  guestAgentLinesMax: 32,

  /** Clients of the controller API besides the controller. */
  clientsMax: 256,
  allowedHostsMax: 256,
  allowedNetworksMax: 64,
  /**
   * Connections that the kernel counts for one guest, in each direction: those that it opens, and those opened to it. A
   * host of 4 GiB or more tracks 262,144 (nf_conntrack_max).
   */
  guestConnectionsMax: 16_384,
  /** More than any host tracks. */
  hostConnectionsMax: 16_777_216,

  /** A program such as `ip` or `nft` answers in milliseconds; one that takes this long hangs. */
  toolMs: 10_000,
  /** Bytes of standard output and of standard error each; far more than any program we run writes. */
  toolOutputBytesMax: 64 * 1024 * 1024,

  /** Notifications within the time after which systemd's watchdog ends the daemon (WatchdogSec= of vmhostd.service). */
  watchdogShare: 3,

  shutdownBoundMs: 10_000,
  /**
   * The longest time for saves when the host shuts down. systemd reboots by force after 30 minutes (reboot.target,
   * JobTimeoutSec=).
   */
  shutdownMsMax: 1_500_000,
  /**
   * Time for guests that could not be saved then, to end by themselves.
   * Without saves they have the whole bound but `shutdownNoteMs`.
   */
  shutdownGraceMs: 30_000,
  shutdownLookMs: 200,
  /** The end of the bound, in which the records and the log say which guests are left. */
  shutdownNoteMs: 1000,
  /** Extra time that a stop of the daemon may take beyond its bound, to close the store and the drivers. */
  shutdownMarginMs: 5_000,

  /** Consoles that a start adopts in one turn of the event loop; some milliseconds. */
  consolesATurn: 32,
  /** If systemd did not answer at a start, the adopted consoles are counted again this often. */
  adoptionRecheckMs: 5000,

  /** How often the host's figures are read, with a few system calls; so a lost or returning pool is noticed. */
  figuresEveryMs: 5000,
  /** How often the lengths of images in the pool are read, to check requests; one call to the pool for each image. */
  imageSizesEveryMs: 60_000,
  /** A mounted pool answers in microseconds, a busy disk within a second or two; a slower pool counts as silent. */
  hostLookMs: 3000,
  /** Looks of VMs at their storage that run at once. Those that run together share the checks of the pool. */
  poolLooksMax: 16,
  /**
   * Looks at the host at once for plans, dry runs and counters that clients ask for:
   * those of the daemon itself wait behind them.
   */
  askedLooksMax: 4,
  /** A request renews a measurement of the memory of running VMs that is so old, and does not wait for it. */
  residentRenewMs: 5000,
  /** How long a measurement of the memory of running VMs is shown. Without one a request waits for the next. */
  residentAgeMsMax: 10_000,
  /**
   * VMs whose memory is measured in one turn of the event loop; about half a millisecond. An answer takes some ten
   * turns, and each of them waits for one of these.
   */
  residentLooksATurn: 8,
  /** Readers of metrics share an answer for so long after its end: many of them cost no more than one. */
  metricsAgeMsMax: 2000,
  /** Common names in the configuration that may read metrics. */
  metricsReadersMax: 16,
  /** How long a scrape waits for the host; then what is not known is left out. Prometheus waits 10 s. */
  metricsLookMs: 4000,
  /** Records of VMs that a scrape reads in one turn of the event loop; some milliseconds. */
  metricsVmsATurn: 32,
  /** Network devices whose counters a scrape reads in one turn of the event loop; a fifth of a millisecond each. */
  metricsLinksATurn: 8,
  /** Monitors that a scrape asks for their disk counters at once. */
  metricsDiskLooksMax: 32,
  /** How often the delay of the event loop is measured. Each time wakes a daemon that has nothing else to do. */
  loopDelayEveryMs: 500,

  /** Figures older than this are unknown. It covers two looks of the longest duration, and the pause between them. */
  figuresAgeMsMax: 15_000,

  /** The controller listener. A client that holds a connection must send something within these times. */
  handshakeMs: 10_000,
  /**
   * Connections whose handshake is not finished. One peer: as many as a controller opens when it comes back with a long
   * poll for each of its VMs. All peers: below `connectionsMax`, so that they never keep a controller out; above it,
   * the oldest is closed.
   */
  handshakesPerPeerMax: 1024,
  handshakesMax: 2048,
  /** Failed handshakes that one peer may make in addition to those at once; above it, its connections are refused. */
  handshakeFailuresPerSecond: 10,
  /** Peers whose failures are remembered; the peer that was quiet longest is forgotten first. */
  handshakePeersMax: 4096,
  /** Between two log lines about refused handshakes of one reason. */
  handshakeLogMs: 10_000,
  requestHeadersMs: 10_000,
  requestMs: 30_000,
  /** Longer than the minute between two polls of a calm controller, so that it keeps its connection. */
  keepAliveMs: 75_000,
  /** How often the server checks for connections past the deadlines above. */
  connectionCheckMs: 5000,
  /** Requests of one connection that are not answered. Clients of HTTP/1.1 hardly send a second before the answer. */
  requestsPerConnectionMax: 16,
  /** Over HTTP/1.1 a long poll holds one: room for one per VM on a full host; more is a leak of the client. */
  connectionsMax: 4096,
  /** Connections of one node to the listener for other hosts. Each VM that it takes has a few. */
  connectionsOfNodeMax: 256,
  /** Those of clients that are not controllers. Beside these and `handshakesMax`, a quarter is left for controllers. */
  connectionsOthersMax: 1024,
  headerBytesMax: 16 * 1024,
  /** Between two tries to start the listener for other hosts. */
  listenRetryMs: 10_000,

  ...certificateLimits,
  ...clientLimits,
  ...consoleLimits,
  ...eventLimits,
  ...maintenanceLimits,
  ...migrationLimits,
  ...monitorLimits,
  ...networkLimits,
  ...poolLimits,
  ...recordsLimits,
  ...snapshotLimits,
} as const
