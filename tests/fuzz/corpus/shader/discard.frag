#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 fragColor;
void main() { float a = 0.7; mat2 r = mat2(cos(a), sin(a), -sin(a), cos(a)); vec2 p = r * (v_texCoord - 0.5) + 0.5; if (any(lessThan(p, vec2(0.0))) || any(greaterThan(p, vec2(1.0)))) discard; fragColor = texture(u_image0, p); }
