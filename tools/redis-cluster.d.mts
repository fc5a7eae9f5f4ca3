export interface RedisNode {
  port: number
  folder: string
  pid: number
  alive: boolean
  command(args: (string | number)[]): Promise<unknown>
  signal(name: NodeJS.Signals): void
  stop(name?: NodeJS.Signals): Promise<void>
}

export interface RedisCluster {
  nodes: RedisNode[]
  url: string
  restart(n: number): Promise<void>
  masters(): Promise<number[]>
  failedOver(n: number): Promise<void>
  healthy(): Promise<void>
  replicated(): Promise<void>
  flush(): Promise<void>
  stop(): Promise<void>
}

export interface Proxy {
  port: number
  cut(): void
  mend(): void
  stop(): void
}

export function hasRedis(): Promise<boolean>
export function startServer(p: { folder: string; port: number; bus?: number; settings?: string[] }): Promise<RedisNode>
export function startCluster(p?: { settings?: string[] }): Promise<RedisCluster>
export function startProxy(target: number): Promise<Proxy>

export function patiently<T>(action: () => Promise<T>): Promise<T>
