export const SECTIONS: readonly { text: string; pages: Record<string, string> }[]
